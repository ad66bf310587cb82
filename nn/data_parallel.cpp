#include <adjoint/nn/data_parallel.h>

#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/stream.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/nn/norm.h>
#include <adjoint/ops/distributed/collectives.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace adjoint::distributed {
namespace {

constexpr const char* kName = "DataParallel";

// A line a tensor: what every rank's network must be alike in.
std::string description(const NamedTensors& parameters, const NamedTensors& buffers) {
  std::string lines;
  for (const NamedTensors* list : {&parameters, &buffers}) {
    for (const auto& [name, tensor] : *list) lines += fmt::format("{} {} {}\n", name, tensor.dtype(), tensor.shape());
  }
  return lines;
}

void check_alike(const std::string& own) {
  const std::string first = broadcast_text(own, 0, kName);
  Tensor differ = Tensor::scalar(first == own ? 0.0 : 1.0, {.dtype = kInt64});
  const Call call{.kind = Kind::kAllReduce, .op = ReduceOp::kMax, .caller = kName};
  run(call, differ, differ);
  if (differ.item<std::int64_t>() == 0) return;
  std::istringstream own_lines(own), first_lines(first);
  std::string a, b;
  do {
    a.clear(), b.clear();
    std::getline(own_lines, a);
    std::getline(first_lines, b);
  } while (a == b && (own_lines || first_lines));
  ADJOINT_CHECK(a == b,
                "{}: every rank's parameters and buffers must have the names, shapes and dtypes of rank 0's; got "
                "'{}' on rank {} and '{}' on rank 0",
                kName, a, rank(), b);
  fail(
      "{}: every rank's parameters and buffers must have the names, shapes and dtypes of rank 0's; got others on "
      "another rank than {}",
      kName, rank());
}

// All of one dtype and device in one message each.
void broadcast_together(const NamedTensors& tensors) {
  const PauseTape pause;
  std::map<std::pair<DType, std::pair<DeviceType, int>>, std::vector<Tensor>> kinds;
  for (const auto& [name, tensor] : tensors) {
    kinds[{tensor.dtype(), {tensor.device().type, tensor.device().index}}].push_back(tensor.detach());
  }
  for (auto& entry : kinds) {
    std::vector<Tensor>& list = entry.second;
    std::int64_t count = 0;
    for (const Tensor& tensor : list) count += tensor.numel();
    Tensor flat = Tensor::empty({count}, {.dtype = entry.first.first, .device = list[0].device()});
    const auto each = [&](const auto& f) {
      std::int64_t at = 0;
      for (Tensor& tensor : list) {
        Tensor part = flat.view_as(tensor.shape(), contiguous_strides(tensor.shape()), at);
        f(tensor, part);
        at += tensor.numel();
      }
    };
    if (rank() == 0) each([](Tensor& tensor, Tensor& part) { copy_into(tensor, part); });
    run({.kind = Kind::kBroadcast, .caller = kName}, flat, flat);
    if (rank() != 0) each([](Tensor& tensor, Tensor& part) { tensor.copy_(part); });
  }
}

}  // namespace

namespace detail {

class Reducer::Sink final : public GradientSink {
 public:
  Sink(const nn::Module& module, const DataParallelOptions& options) : module_(module), options_(options) {
    ADJOINT_CHECK(options.bucket_bytes > 0, "{}: bucket_bytes must be above 0; got {}", kName, options.bucket_bytes);
    const NamedTensors buffers = module.named_buffers();
    const NamedTensors parameters = module.named_parameters();
    check_alike(description(parameters, buffers));
    broadcast_together(parameters);
    broadcast_together(buffers);
    for (const auto& [name, tensor] : parameters) {
      if (!tensor.requires_grad()) continue;
      index_.emplace(tensor.impl(), entries_.size());
      entries_.push_back({name, tensor});
    }
  }

  const std::vector<Tensor> leaves() const {
    std::vector<Tensor> all;
    for (const Entry& entry : entries_) all.push_back(entry.leaf);
    return all;
  }

  void before_forward() {
    if (!options_.broadcast_buffers || !stale_ || engine() == nullptr || !module_.training()) return;
    broadcast_together(module_.named_buffers());
    stale_ = false;
  }

  bool take(const Tensor& leaf, const Tensor& gradient) override {
    if (!sync) return false;
    const auto found = index_.find(leaf.impl());
    if (found == index_.end()) return false;
    const std::size_t i = found->second;
    if (!buckets_.empty() && !started_) begin();
    order_.push_back(i);
    Entry& entry = entries_[i];
    if (buckets_.empty()) {
      entry.gradient = gradient;
      return true;
    }
    put(entry, gradient);
    Bucket& bucket = buckets_[entry.bucket];
    if (--bucket.waits_for == 0) launch_ready();
    return true;
  }

  void finish() override {
    if (order_.empty()) return;
    std::vector<bool> used(entries_.size(), false);
    for (const std::size_t i : order_) used[i] = true;
    find_unused(used);
    if (buckets_.empty()) {
      make_buckets(used);
      begin();
      for (const std::size_t i : order_) put(entries_[i], std::exchange(entries_[i].gradient, {}));
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (used[i]) continue;
      put(entries_[i], {});
    }
    for (Bucket& bucket : buckets_) bucket.waits_for = 0;
    launch_ready();
    if (comm_) Stream::current(device_).wait(*comm_);
    if (!options_.find_unused_parameters) return;
    Tensor mask = Tensor::zeros({static_cast<std::int64_t>(entries_.size())}, {.dtype = kUInt8});
    auto* const bits = mask.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < entries_.size(); ++i) bits[i] = used[i] || entries_[i].leaf.grad().defined() ? 1 : 0;
    run({.kind = Kind::kAllReduce, .op = ReduceOp::kMax, .caller = "DataParallel, used parameters"}, mask, mask);
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].counts = mask.data<std::uint8_t>()[i] != 0;
  }

  void commit() noexcept override {
    if (order_.empty()) return;
    for (Entry& entry : entries_) {
      if (entry.counts) entry.leaf.set_grad(entry.slot);
      entry.slot = {};
    }
    stale_ = true;
    reset();
  }

  void abandon() noexcept override {
    if (comm_ && started_) Stream::current(device_).wait(*comm_);
    for (Entry& entry : entries_) entry.gradient = entry.slot = {};
    reset();
  }

  std::vector<std::vector<std::string>> buckets() const {
    std::vector<std::vector<std::string>> names;
    for (const Bucket& bucket : buckets_) {
      names.emplace_back();
      for (const std::size_t i : bucket.entries) names.back().push_back(entries_[i].name);
    }
    return names;
  }

  bool sync = true;

 private:
  struct Entry {
    std::string name;
    Tensor leaf;
    std::size_t bucket = 0;
    std::int64_t begin = 0;  // in the bucket
    Tensor gradient = {};    // the first sweep's, before there are buckets
    Tensor slot = {};        // its part of the bucket, in a sweep
    bool counts = true;      // on some rank it has a gradient
  };
  struct Bucket {
    std::vector<std::size_t> entries;
    DType dtype = kFloat32;
    std::int64_t numel = 0;
    Tensor flat = {};
    std::size_t waits_for = 0;
  };

  // Throws Error on every rank where one has a parameter without a gradient, unless that is allowed.
  void find_unused(const std::vector<bool>& used) const {
    if (options_.find_unused_parameters) return;
    std::string names;
    int count = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (used[i] || !entries_[i].leaf.requires_grad()) continue;
      if (++count <= 8) names += fmt::format("{}{}", count == 1 ? "" : ", ", entries_[i].name);
    }
    if (count == 0) return;
    if (count > 8) names += fmt::format(" and {} more", count - 8);
    fail_everywhere(
        fmt::format("{}: every parameter must get a gradient; got none for {}; freeze what is not trained with "
                    "requires_grad_(false), or set find_unused_parameters",
                    kName, names));
  }

  // In the order in which rank 0 got its gradients; what it got none for comes last. A bucket has one dtype.
  void make_buckets(const std::vector<bool>& used) {
    std::vector<std::size_t> order = order_;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!used[i]) order.push_back(i);
    }
    Tensor first = Tensor::empty({static_cast<std::int64_t>(order.size())}, {.dtype = kInt64});
    auto* const at = first.mutable_data<std::int64_t>();
    std::copy(order.begin(), order.end(), at);
    run({.kind = Kind::kBroadcast, .caller = "DataParallel, the order of buckets"}, first, first);
    std::map<DType, Bucket> open;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto i = static_cast<std::size_t>(first.data<std::int64_t>()[k]);
      const Tensor& leaf = entries_[i].leaf;
      const std::int64_t size = element_size(leaf.dtype());
      Bucket& bucket = open[leaf.dtype()];
      if (!bucket.entries.empty() && (bucket.numel + leaf.numel()) * size > options_.bucket_bytes) {
        buckets_.push_back(std::exchange(bucket, {}));
      }
      bucket.dtype = leaf.dtype();
      entries_[i].begin = bucket.numel;
      bucket.entries.push_back(i);
      bucket.numel += (leaf.numel() * size + 15) / 16 * 16 / size;  // so that kernels find their 16 bytes aligned
    }
    for (auto& [dtype, bucket] : open) buckets_.push_back(std::move(bucket));
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const std::size_t i : buckets_[b].entries) entries_[i].bucket = b;
    }
  }

  // A bucket's memory serves again where nobody holds the last gradients any more.
  void begin() {
    started_ = true;
    launched_ = 0;
    device_ = entries_[0].leaf.device();
    for (const Entry& entry : entries_) {
      ADJOINT_CHECK(entry.leaf.device() == device_ && entry.leaf.dtype() == buckets_[entry.bucket].dtype,
                    "{}: parameters must be on one device and keep their dtype; got {} {} on {} beside {}; make "
                    "DataParallel anew",
                    kName, entry.name, entry.leaf.dtype(), entry.leaf.device(), device_);
    }
    if (device_.is_cuda() && engine() != nullptr && !comm_) comm_ = Stream::create(device_);
    for (Bucket& bucket : buckets_) {
      const bool free =
          bucket.flat.defined() && bucket.flat.device() == device_ && bucket.flat.impl()->storage.use_count() == 1;
      if (!free) bucket.flat = Tensor::zeros({bucket.numel}, {.dtype = bucket.dtype, .device = device_});
      bucket.waits_for = bucket.entries.size();
    }
    for (Entry& entry : entries_) {
      const Tensor& flat = buckets_[entry.bucket].flat;
      entry.slot = flat.view_as(entry.leaf.shape(), contiguous_strides(entry.leaf.shape()), entry.begin);
      entry.counts = true;
    }
  }

  // slot = gradient + what .grad() holds from sweeps before.
  void put(Entry& entry, const Tensor& gradient) {
    const Tensor before = entry.leaf.grad();
    if (gradient.defined()) {
      copy_into(gradient, entry.slot);
      if (before.defined()) entry.slot.add_(before.detach());
    } else if (before.defined()) {
      copy_into(before, entry.slot);
    } else {
      entry.slot.zero_();
    }
  }

  // Sums the buckets whose gradients have come, as far as their turn has.
  void launch_ready() {
    for (; launched_ < buckets_.size() && buckets_[launched_].waits_for == 0; ++launched_) {
      if (engine() == nullptr) continue;
      Bucket& bucket = buckets_[launched_];
      std::optional<StreamGuard> guard;
      if (comm_) {
        comm_->wait(Stream::current(device_));
        guard.emplace(*comm_);
      }
      run({.kind = Kind::kAllReduce, .op = ReduceOp::kAvg, .caller = fmt::format("DataParallel, bucket {}", launched_)},
          bucket.flat, bucket.flat);
    }
  }

  void reset() noexcept {
    order_.clear();
    started_ = false;
  }

  nn::Module module_;
  DataParallelOptions options_;
  std::vector<Entry> entries_;
  std::unordered_map<const TensorImpl*, std::size_t> index_;  // into entries_
  std::vector<Bucket> buckets_;                               // empty before the first sweep
  std::vector<std::size_t> order_;                            // entries that this sweep has taken
  std::size_t launched_ = 0;                                  // buckets
  bool started_ = false;
  bool stale_ = false;  // buffers may differ from rank 0's
  Device device_ = kCPU;
  std::optional<Stream> comm_;
};

Reducer::Reducer(const nn::Module& module, const DataParallelOptions& options)
    : sink_(std::make_shared<Sink>(module, options)) {
  if (engine() == nullptr) return;  // a world of one: gradients are what they are
  for (const Tensor& leaf : sink_->leaves()) {
    ADJOINT_CHECK(leaf.impl()->leaf->sink.expired(),
                  "{}: a parameter can stand in one of them at a time; got one of shape {} that stands in another",
                  kName, leaf.shape());
  }
  for (const Tensor& leaf : sink_->leaves()) leaf.impl()->leaf->sink = sink_;
}
Reducer::~Reducer() = default;

void Reducer::before_forward() { sink_->before_forward(); }
void Reducer::set_sync(bool on) { sink_->sync = on; }
bool Reducer::sync() const { return sink_->sync; }
std::vector<std::vector<std::string>> Reducer::buckets() const { return sink_->buckets(); }

}  // namespace detail

void convert_sync_batchnorm(const nn::Module& module) {
  const auto convert = [](nn::detail::BatchNorm& norm) { norm.set_sync(true); };
  module.visit<nn::BatchNorm1d>(convert);
  module.visit<nn::BatchNorm2d>(convert);
}

}  // namespace adjoint::distributed

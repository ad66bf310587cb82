#include <adjoint/nn/data_parallel.h>

#include <adjoint/core/autocast.h>
#include <adjoint/core/check.h>
#include <adjoint/core/copy.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/gradient_places.h>
#include <adjoint/core/step_capture.h>
#include <adjoint/core/tape.h>
#include <adjoint/core/tensor_impl.h>
#include <adjoint/nn/norm.h>
#include <adjoint/ops/distributed/collectives.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>

namespace adjoint::distributed {
namespace {

constexpr const char* kName = "DataParallel";
constexpr std::int64_t kLeastBucket = std::int64_t{1} << 20, kBuckets = 8;
constexpr std::int64_t kAlignment = 256;  // bytes, of a gradient in its bucket
constexpr std::int64_t kManyBytes = std::int64_t{64} << 20;
// Of 132 multiprocessors 128 are left: powers of two that tiles fill. Sums of so few take longer than a sweep of 16-bit
// products, which shares with more.
constexpr int kFewCtas = 4, kCtasBesideHalves = 16;

// A line for the options and one a tensor: what every rank's network must be alike in.
std::string description(const NamedTensors& parameters, const NamedTensors& buffers,
                        const DataParallelOptions& options) {
  std::string lines = fmt::format("options: {} bytes, {}, {}, {}\n", options.bucket_bytes,
                                  options.find_unused_parameters, options.broadcast_buffers, options.max_ctas);
  for (const NamedTensors* list : {&parameters, &buffers}) {
    for (const auto& [name, tensor] : *list) lines += fmt::format("{} {} {}\n", name, tensor.dtype(), tensor.shape());
  }
  return lines;
}

void check_alike(const std::string& own) {
  const std::string first = broadcast_text(own, 0, kName);
  Tensor differs = Tensor::scalar(first == own ? world_size() : rank(), {.dtype = kInt64});  // the first rank that does
  const Call call{.kind = Kind::kAllReduce, .op = ReduceOp::kMin, .caller = kName};
  run(call, differs, differs);
  const int odd = differs.item<int>();
  if (odd == world_size()) return;
  std::istringstream odd_lines(broadcast_text(own, odd, kName)), first_lines(first);
  std::string a, b;
  do {
    a.clear(), b.clear();
    std::getline(odd_lines, a);
    std::getline(first_lines, b);
  } while (a == b);
  fail(
      "{}: every rank's options, and its parameters' and buffers' names, shapes and dtypes, must be rank 0's; got "
      "'{}' on rank {} and '{}' on rank 0",
      kName, a, odd, b);
}

Part broadcast_of(const Tensor& tensor) {
  return {.call = {.kind = Kind::kBroadcast, .caller = kName}, .tensor = tensor};
}

// Those of the module itself, not of what stands in it.
NamedTensors own_buffers(const nn::Module& module) {
  NamedTensors own;
  for (const auto& [name, buffer] : module.named_buffers()) {
    if (name.find('.') == std::string::npos) own.emplace_back(name, buffer);
  }
  return own;
}

// Rank 0's, on every rank: one call a device, of copies where they are not contiguous.
void broadcast_all(const NamedTensors& named) {
  const PauseTape pause;
  std::map<std::pair<DeviceType, int>, std::pair<std::vector<Tensor>, std::vector<Part>>> devices;
  for (const auto& [name, tensor] : named) {
    if (tensor.numel() == 0) continue;
    auto& [tensors, packed] = devices[{tensor.device().type, tensor.device().index}];
    tensors.push_back(tensor.detach());
    packed.push_back(broadcast_of(contiguous_copy(tensors.back())));
  }
  for (auto& [device, lists] : devices) {
    auto& [tensors, packed] = lists;
    if (engine() != nullptr) engine()->run_together(packed);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (packed[i].tensor.impl() != tensors[i].impl()) tensors[i].copy_(packed[i].tensor);
    }
  }
}

}  // namespace

namespace detail {

class Reducer::Sink final : public PlacingSink {
 public:
  Sink(const nn::Module& module, const DataParallelOptions& options) : options_(options) {
    ADJOINT_CHECK(options.bucket_bytes > 0, "{}: bucket_bytes must be above 0; got {}", kName, options.bucket_bytes);
    const NamedTensors buffers = module.named_buffers();
    const NamedTensors parameters = module.named_parameters();
    ADJOINT_CHECK(options.max_ctas >= 0 || options.max_ctas == DataParallelOptions::kAutomatic,
                  "{}: max_ctas must not be negative; got {}", kName, options.max_ctas);
    check_alike(description(parameters, buffers, options));
    broadcast_all(parameters);
    broadcast_all(buffers);
    for (const auto& [name, part] : module.named_modules()) {
      if (options.broadcast_buffers && !own_buffers(part).empty()) buffered_.push_back(part);
    }
    std::int64_t nbytes = 0;
    for (const auto& [name, tensor] : parameters) {
      if (!tensor.requires_grad()) continue;
      nbytes += tensor.numel() * element_size(tensor.dtype());
      index_.emplace(tensor.impl(), entries_.size());
      entries_.push_back({name, tensor});
    }
    many_bytes_ = nbytes >= kManyBytes;
  }

  const std::vector<Tensor> leaves() const {
    std::vector<Tensor> all;
    for (const Entry& entry : entries_) all.push_back(entry.leaf);
    return all;
  }

  void before_forward() { halves_ = autocast_dtype().has_value(); }

  Tensor place(const Tensor& leaf) override {
    if (!sync || buckets_.empty()) return {};
    const auto found = index_.find(leaf.impl());
    if (found == index_.end()) return {};
    if (!started_) begin();
    return entries_[found->second].slot;
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
    launch_last();
    if (!options_.find_unused_parameters) return;
    Tensor mask = Tensor::zeros({static_cast<std::int64_t>(entries_.size())}, {.dtype = kUInt8});
    auto* const bits = mask.mutable_data<std::uint8_t>();
    for (std::size_t i = 0; i < entries_.size(); ++i) bits[i] = used[i] || entries_[i].leaf.grad().defined() ? 1 : 0;
    run({.kind = Kind::kAllReduce, .op = ReduceOp::kMax, .caller = "DataParallel, used parameters"}, mask, mask);
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].counts = mask.data<std::uint8_t>()[i] != 0;
  }

  void commit() noexcept override {
    if (order_.empty()) return reset();
    for (Entry& entry : entries_) {
      if (entry.counts) entry.leaf.set_grad(entry.slot);
    }
    reset();
  }

  void abandon() noexcept override {
    try {
      if (started_ && engine() != nullptr) engine()->join(device_);
    } catch (const Error&) {  // the sweep tells its own
    }
    for (Entry& entry : entries_) entry.gradient = {};
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

  std::size_t num_copied() const { return num_copied_; }

  bool sync = true;

 private:
  using Capture = adjoint::detail::StepCapture;

  struct Entry {
    std::string name;
    Tensor leaf;
    std::size_t bucket = 0;
    std::int64_t begin = 0;  // in the bucket
    Tensor gradient = {};    // the first sweep's, before there are buckets
    Tensor slot = {};        // its part of the bucket, as a storage of its own: hooks freeze storages
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
    ADJOINT_CHECK(Capture::current() == nullptr,
                  "{}: a captured step (GraphedStep) must find the buckets made; got the first sweep; let a call run "
                  "uncaptured (warmup)",
                  kName);
    std::vector<std::size_t> order = order_;
    std::int64_t nbytes = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      nbytes += entries_[i].leaf.numel() * element_size(entries_[i].leaf.dtype());
      if (!used[i]) order.push_back(i);
    }
    const std::int64_t full = std::min(options_.bucket_bytes, std::max(kLeastBucket, nbytes / kBuckets));
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
      bucket.dtype = leaf.dtype();
      entries_[i].begin = bucket.numel;
      bucket.entries.push_back(i);
      bucket.numel += (leaf.numel() * size + kAlignment - 1) / kAlignment * kAlignment / size;
      if (bucket.numel * size >= full) buckets_.push_back(std::exchange(bucket, {}));
    }
    for (auto& [dtype, bucket] : open) {
      if (!bucket.entries.empty()) buckets_.push_back(std::move(bucket));
    }
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const std::size_t i : buckets_[b].entries) entries_[i].bucket = b;
    }
  }

  void begin() {
    num_copied_ = 0;
    device_ = entries_[0].leaf.device();
    for (const Entry& entry : entries_) {
      ADJOINT_CHECK(entry.leaf.device() == device_ && entry.leaf.dtype() == buckets_[entry.bucket].dtype,
                    "{}: parameters must be on one device and keep their dtype; got {} {} on {} beside {}; make "
                    "DataParallel anew",
                    kName, entry.name, entry.leaf.dtype(), entry.leaf.device(), device_);
    }
    if (Capture::current() != nullptr) {
      check_capturable();
    } else {
      engine()->prepare(max_ctas());
      for (Bucket& bucket : buckets_) {
        if (!is_free(bucket)) make_room(bucket);
      }
    }
    for (Bucket& bucket : buckets_) bucket.waits_for = bucket.entries.size();
    for (Entry& entry : entries_) entry.counts = true;
    launched_ = 0;
    started_ = true;
  }

  // Nobody holds the gradients of the last sweep any more, not even a graph.
  bool is_free(const Bucket& bucket) const {
    return bucket.flat.defined() && bucket.flat.device() == device_ &&
           std::all_of(bucket.entries.begin(), bucket.entries.end(), [this](std::size_t i) {
             const Tensor& slot = entries_[i].slot;
             return slot.impl_ptr().use_count() == 1 && slot.impl()->storage.use_count() == 1;
           });
  }

  // What holds the last gradients keeps that memory.
  void make_room(Bucket& bucket) {
    Tensor flat = Tensor::zeros({bucket.numel}, {.dtype = bucket.dtype, .device = device_});
    const std::int64_t size = element_size(bucket.dtype);
    std::vector<Tensor> slots;
    for (const std::size_t i : bucket.entries) {
      const Tensor& leaf = entries_[i].leaf;
      slots.push_back(make_tensor({Shape{0}, bucket.dtype}, device_));
      TensorImpl& impl = *slots.back().impl();
      impl.shape = leaf.shape();
      impl.strides = contiguous_strides(impl.shape);
      impl.numel = leaf.numel();
      char* const at = static_cast<char*>(flat.impl()->storage->data()) + entries_[i].begin * size;
      impl.storage = Storage::wrap(at, static_cast<std::size_t>(impl.numel * size), device_, [flat] {});
    }
    for (std::size_t k = 0; k < slots.size(); ++k) entries_[bucket.entries[k]].slot = std::move(slots[k]);
    bucket.flat = std::move(flat);
  }

  // A graph and what is computed beside it may share the buckets: a replay writes over its gradients anyhow.
  void check_capturable() const {
    ADJOINT_CHECK(!options_.find_unused_parameters,
                  "{}: a captured step (GraphedStep) cannot ask in each replay which parameters were used; got "
                  "find_unused_parameters",
                  kName);
    for (const Entry& entry : entries_) {
      const Tensor& flat = buckets_[entry.bucket].flat;
      ADJOINT_CHECK(flat.defined() && flat.device() == device_,
                    "{}: a captured step (GraphedStep) must find the buckets made; got none on {}; let a call run "
                    "uncaptured (warmup)",
                    kName, device_);
      const Tensor before = entry.leaf.grad();
      ADJOINT_CHECK(!before.defined() || before.impl()->storage != entry.slot.impl()->storage,
                    "{}: a captured step (GraphedStep) must begin its sweep without gradients in the buckets; got one "
                    "of {}; call zero_grad() before, and accumulate in no_sync()",
                    kName, entry.name);
    }
  }

  // slot = gradient + what .grad() holds from sweeps before.
  void put(Entry& entry, const Tensor& gradient) {
    const Tensor before = entry.leaf.grad();
    if (gradient.defined()) {
      const TensorImpl& impl = *gradient.impl();
      const bool placed = impl.storage == entry.slot.impl()->storage;
      if (!placed || !impl.contiguous || impl.offset != 0) {
        copy_into(placed ? gradient.clone() : gradient, entry.slot);
        ++num_copied_;
      }
      if (before.defined()) entry.slot.add_(before.detach());
    } else if (before.defined()) {
      copy_into(before, entry.slot);
    } else {
      entry.slot.zero_();
    }
  }

  // Of the buckets' sums but the last.
  int max_ctas() const {
    if (options_.max_ctas != DataParallelOptions::kAutomatic) return options_.max_ctas;
    if (!many_bytes_) return 0;
    return halves_ ? kCtasBesideHalves : kFewCtas;
  }

  Part sum_of(std::size_t bucket, int max_ctas) const {
    return {.call = {.kind = Kind::kAllReduce,
                     .op = ReduceOp::kAvg,
                     .caller = fmt::format("DataParallel, bucket {}", bucket),
                     .max_ctas = max_ctas},
            .tensor = buckets_[bucket].flat};
  }

  // Sums the buckets whose gradients have come, as far as their turn has, but the last.
  void launch_ready() {
    for (; launched_ + 1 < buckets_.size() && buckets_[launched_].waits_for == 0; ++launched_) {
      engine()->run_beside(sum_of(launched_, max_ctas()));
    }
  }

  // Sums the last bucket, in the sweep's own stream, and, in one call with it, which takes no longer, gives every rank
  // rank 0's buffers.
  void launch_last() {
    std::vector<Part> parts{sum_of(launched_, 0)};
    NamedTensors others;
    for (const nn::Module& owner : buffered_) {
      if (!owner.training()) continue;  // nothing wrote to them, and another sweep of the tape may still read them
      for (const auto& [name, buffer] : own_buffers(owner)) {
        if (buffer.device() == device_ && buffer.is_contiguous() && buffer.numel() > 0) {
          parts.push_back(broadcast_of(buffer.detach()));
        } else {
          others.emplace_back(name, buffer);
        }
      }
    }
    engine()->join(device_);
    engine()->run_together(parts);
    broadcast_all(others);
  }

  void reset() noexcept {
    order_.clear();
    started_ = false;
  }

  DataParallelOptions options_;
  std::vector<nn::Module> buffered_;  // modules with buffers of their own, where those are broadcast
  bool many_bytes_ = false;           // of gradients
  bool halves_ = false;               // the last forward pass was under autocast
  std::vector<Entry> entries_;
  std::unordered_map<const TensorImpl*, std::size_t> index_;  // into entries_
  std::vector<Bucket> buckets_;                               // empty before the first sweep
  std::vector<std::size_t> order_;                            // entries that this sweep has taken
  std::size_t launched_ = 0;                                  // buckets
  bool started_ = false;
  Device device_ = kCPU;
  std::size_t num_copied_ = 0;
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
std::size_t Reducer::num_copied() const { return sink_->num_copied(); }

}  // namespace detail

void convert_sync_batchnorm(const nn::Module& module) {
  const auto convert = [](nn::detail::BatchNorm& norm) { norm.set_sync(true); };
  module.visit<nn::BatchNorm1d>(convert);
  module.visit<nn::BatchNorm2d>(convert);
}

}  // namespace adjoint::distributed

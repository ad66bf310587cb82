#include <adjoint/nn/data_parallel.h>

#include <adjoint/core/autograd/autocast.h>
#include <adjoint/core/autograd/gradient_places.h>
#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/graph/step_capture.h>
#include <adjoint/core/tensor/copy.h>
#include <adjoint/core/tensor/tensor_impl.h>
#include <adjoint/nn/gradient_buckets.h>
#include <adjoint/nn/norm.h>
#include <adjoint/nn/rank_zero.h>
#include <adjoint/ops/distributed/collectives.h>

#include <algorithm>
#include <thread>
#include <unordered_map>

namespace adjoint::distributed {
namespace {

constexpr std::int64_t kLeastBucket = std::int64_t{1} << 20, kBuckets = 8;
constexpr std::int64_t kManyBytes = std::int64_t{64} << 20;
// Leaves 128 of 132 multiprocessors: a power of two that tiles fill. With so few blocks, sums are slower than a sweep
// of 16-bit products, which shares with more.
constexpr int kFewCtas = 4, kCtasBesideHalves = 16;

}  // namespace

namespace detail {

class Reducer::Sink final : public PlacingSink {
 public:
  Sink(const nn::Module& module, const DataParallelOptions& options) : options_(options), module_(module) {
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
    for (const auto& [name, tensor] : parameters) {
      index_.emplace(tensor.impl(), entries_.size());
      entries_.push_back({name, tensor});
    }
    static int networks = 0;  // networks are constructed in the same order, so the number is the same on every rank
    network_ = networks++;
  }

  // Takes the gradients of the parameters that require one.
  void claim(const std::shared_ptr<Sink>& self) {
    for (const Entry& entry : entries_) {
      if (entry.leaf.requires_grad()) check_unclaimed(entry);
    }
    for (const Entry& entry : entries_) {
      if (entry.leaf.requires_grad()) entry.leaf.impl()->leaf->sink = self;
    }
    self_ = self;
    adjoint::detail::watch_sweeps(self);
  }

  void before_forward() {
    halves_ = autocast_dtype().has_value();
    if (Tape* const tape = Tape::current()) forward_tape_ = tape->impl().serial();
  }

  // A parameter takes part if it requires a gradient now, or did when the tape recorded it.
  bool begin(std::uint64_t tape, const std::vector<Tensor>& leaves) override {
    std::vector<bool> active(entries_.size(), false);
    bool reaches = false;
    for (const Tensor& leaf : leaves) {
      const auto found = index_.find(leaf.impl());
      if (found != index_.end() && !is_anothers(leaf)) active[found->second] = reaches = true;
    }
    if (!reaches && std::this_thread::get_id() != thread_) return false;  // another thread's sweep
    own_ = false;
    if (!sync) return false;
    if (reaches) check_parameters();
    for (std::size_t i = 0; i < entries_.size(); ++i) active[i] = active[i] || entries_[i].leaf.requires_grad();
    if (std::find(active.begin(), active.end(), true) == active.end()) return false;
    own_ = reaches;
    if (options_.find_unused_parameters && Capture::current() == nullptr) own_ = any_rank(reaches);
    const bool passed = !options_.find_unused_parameters && tape == forward_tape_;  // on every rank or on no rank
    if (own_ || passed) ++sweeps_;
    if (own_) set_active(active);
    return own_;
  }

  void share() override { deferred_ = options_.find_unused_parameters; }

  Tensor place(const Tensor& leaf) override {
    if (!own_ || buckets_.empty()) return {};
    const auto found = index_.find(leaf.impl());
    if (found == index_.end()) return {};
    if (!started_) start();
    return entries_[found->second].slot;
  }

  bool take(const Tensor& leaf, const Tensor& gradient) override {
    if (!own_) return false;
    const auto found = index_.find(leaf.impl());
    if (found == index_.end()) return false;
    const std::size_t i = found->second;
    if (!buckets_.empty() && !started_) start();
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
    std::vector<bool> used(entries_.size(), false);
    for (const std::size_t i : order_) used[i] = true;
    find_unused(used);
    const bool first = buckets_.empty();
    if (first) make_buckets(used);
    if (!started_) start();
    for (const std::size_t i : order_) {
      if (first) put(entries_[i], std::exchange(entries_[i].gradient, {}));
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].active && !used[i]) put(entries_[i], {});
    }
    for (Bucket& bucket : buckets_) bucket.waits_for = 0;
    deferred_ = false;
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
    for (Entry& entry : entries_) {
      if (entry.active && entry.counts) entry.leaf.set_grad(entry.slot);
    }
    reset();
  }

  void abandon() noexcept override {
    try {
      if (started_ && engine() != nullptr) engine()->join(device_);
    } catch (const Error&) {  // the sweep throws its own error
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

  bool is_anothers(const Tensor& leaf) const {
    const LeafState* const state = leaf.impl()->leaf.get();
    const std::shared_ptr<GradientSink> sink = state == nullptr ? nullptr : state->sink.lock();
    return sink != nullptr && sink.get() != this;
  }

  void check_unclaimed(const Entry& entry) const {
    ADJOINT_CHECK(
        !is_anothers(entry.leaf),
        "{}: a parameter can belong to one DataParallel at a time; got one of shape {} that belongs to another", kName,
        entry.leaf.shape());
  }

  void check_parameters() const {
    const NamedTensors now = module_.named_parameters();
    for (std::size_t i = 0; i < std::max(now.size(), entries_.size()); ++i) {
      ADJOINT_CHECK(i < std::min(now.size(), entries_.size()) && now[i].second.impl() == entries_[i].leaf.impl(),
                    "{}: parameters must be those that it was made with; got {} '{}'; make DataParallel anew", kName,
                    i < now.size() ? "another tensor as" : "no tensor any more as",
                    i < now.size() ? now[i].first : entries_[i].name);
    }
  }

  // Ranks that call it get the same answer.
  bool any_rank(bool here) const {
    Tensor any = Tensor::full({1}, here ? 1 : 0, {.dtype = kUInt8});
    const Call call{.kind = Kind::kAllReduce,
                    .op = ReduceOp::kMax,
                    .caller = fmt::format("DataParallel, whether sweep {} is network {}'s", sweeps_, network_)};
    run(call, any, any);
    return any.item<int>() != 0;
  }

  // Buckets hold the active parameters; another set of them rebuilds the buckets, on every rank or on no rank.
  void set_active(const std::vector<bool>& active) {
    bool same = true;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (active[i] == entries_[i].active) continue;
      if (active[i]) check_unclaimed(entries_[i]);
      same = false;
    }
    if (same) return;
    buckets_.clear();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      entry.active = active[i];
      entry.slot = {};
      if (entry.active) entry.leaf.impl()->leaf->sink = self_;
    }
  }

  // Throws Error on every rank if one has a parameter without a gradient, unless that is allowed.
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

  // In the order in which rank 0 got its gradients; parameters without a gradient come last. A bucket has one dtype.
  void make_buckets(const std::vector<bool>& used) {
    ADJOINT_CHECK(
        Capture::current() == nullptr,
        "{}: a captured step (GraphedStep) must find the buckets made; got the first sweep, or the first since "
        "parameters were frozen or thawed; let a call run uncaptured (warmup)",
        kName);
    std::vector<std::size_t> order = order_;
    std::int64_t nbytes = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!entries_[i].active) continue;
      nbytes += entries_[i].leaf.numel() * element_size(entries_[i].leaf.dtype());
      if (!used[i]) order.push_back(i);
    }
    many_bytes_ = nbytes >= kManyBytes;
    const std::int64_t full = std::min(options_.bucket_bytes, std::max(kLeastBucket, nbytes / kBuckets));
    Tensor first = Tensor::empty({static_cast<std::int64_t>(order.size())}, {.dtype = kInt64});
    auto* const at = first.mutable_data<std::int64_t>();
    std::copy(order.begin(), order.end(), at);
    run({.kind = Kind::kBroadcast, .caller = "DataParallel, the order of buckets"}, first, first);
    order.assign(at, at + order.size());
    for (const std::size_t i : order) {
      if (entries_[i].active) continue;
      fail_everywhere(fmt::format(
          "{}: every rank must train the same parameters; got {}, which requires a gradient on rank 0, frozen "
          "on rank {}",
          kName, entries_[i].name, rank()));
    }
    buckets_ = buckets_of(entries_, order, full);
  }

  void start() {
    num_copied_ = 0;
    device_ = entries_[buckets_[0].entries[0]].leaf.device();
    for (const Entry& entry : entries_) {
      if (!entry.active) continue;
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
        if (!is_free(bucket, entries_, device_)) make_room(bucket, entries_, device_);
      }
    }
    for (Bucket& bucket : buckets_) bucket.waits_for = bucket.entries.size();
    for (Entry& entry : entries_) entry.counts = true;
    launched_ = 0;
    started_ = true;
  }

  // A graph and concurrent work may share the buckets: a replay overwrites its gradients anyway.
  void check_capturable() const {
    ADJOINT_CHECK(!options_.find_unused_parameters,
                  "{}: a captured step (GraphedStep) cannot ask in each replay which parameters were used; got "
                  "find_unused_parameters",
                  kName);
    for (const Entry& entry : entries_) {
      if (!entry.active) continue;
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

  // slot = gradient + the contents of .grad() from earlier sweeps.
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

  // For all sums but the last bucket's.
  int max_ctas() const {
    if (options_.max_ctas != DataParallelOptions::kAutomatic) return options_.max_ctas;
    if (!many_bytes_) return 0;
    return halves_ ? kCtasBesideHalves : kFewCtas;
  }

  Part sum_of(std::size_t bucket, int max_ctas) const {
    return {.call = {.kind = Kind::kAllReduce,
                     .op = ReduceOp::kAvg,
                     .caller =
                         fmt::format("DataParallel, bucket {} of sweep {} of network {}", bucket, sweeps_, network_),
                     .max_ctas = max_ctas},
            .tensor = buckets_[bucket].flat};
  }

  // Sums the buckets whose gradients are complete, in order, except the last.
  void launch_ready() {
    if (deferred_) return;
    for (; launched_ + 1 < buckets_.size() && buckets_[launched_].waits_for == 0; ++launched_) {
      engine()->run_beside(sum_of(launched_, max_ctas()));
    }
  }

  // Sums the last bucket, in the sweep's own stream. The same call also gives every rank rank 0's buffers, at no extra
  // cost.
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
    started_ = deferred_ = false;
  }

  DataParallelOptions options_;
  nn::Module module_;
  std::weak_ptr<Sink> self_;
  int network_ = 0;  // its number among those of the program
  const std::thread::id thread_ = std::this_thread::get_id();
  std::uint64_t forward_tape_ = 0;  // the serial number of the tape under which the module was last called
  std::int64_t sweeps_ = 0;         // sweeps that sum, and those of tapes under which the module was called
  bool own_ = false;                // this sweep sums gradients over ranks
  bool deferred_ = false;           // sums are deferred to its end, with others' sums, in an order that no loss affects
  std::vector<nn::Module> buffered_;  // modules with their own buffers, if those are broadcast
  bool many_bytes_ = false;           // of gradients
  bool halves_ = false;               // the last forward pass was under autocast
  std::vector<Entry> entries_;
  std::unordered_map<const TensorImpl*, std::size_t> index_;  // into entries_
  std::vector<Bucket> buckets_;                               // empty before the first sweep of the active set
  std::vector<std::size_t> order_;                            // entries that this sweep has taken
  std::size_t launched_ = 0;                                  // buckets
  bool started_ = false;
  Device device_ = kCPU;
  std::size_t num_copied_ = 0;
};

Reducer::Reducer(const nn::Module& module, const DataParallelOptions& options)
    : sink_(std::make_shared<Sink>(module, options)) {
  if (engine() != nullptr) sink_->claim(sink_);  // in a world of one gradients need no sums
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
  module.visit<nn::BatchNorm3d>(convert);
}

}  // namespace adjoint::distributed

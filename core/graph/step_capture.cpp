#include <adjoint/core/graph/step_capture.h>

#include <adjoint/core/base/check.h>

#include <algorithm>

namespace adjoint::detail {
namespace {

std::size_t align(std::size_t nbytes, std::size_t unit) { return (nbytes + unit - 1) / unit * unit; }

const Tensor& gradient_in(const Tensor& leaf) {
  static const Tensor none;
  return leaf.impl()->leaf ? leaf.impl()->leaf->grad : none;
}

bool is_same(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  const TensorImpl &x = *a.impl(), &y = *b.impl();
  return &x == &y || (x.storage == y.storage && x.offset == y.offset && x.dtype == y.dtype && x.shape == y.shape &&
                      x.strides == y.strides);
}

}  // namespace

// ---- The record.

bool StepRecord::is_valid() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const StepTensor& tensor) { return tensor.stands(); }) &&
         std::all_of(conditions.begin(), conditions.end(), [](const auto& condition) { return condition(); });
}

bool StepRecord::fits_gradients() const {
  return std::all_of(gradients.begin(), gradients.end(), [](const StepGradient& gradient) {
    return !gradient.reads || is_same(gradient_in(gradient.leaf), gradient.before);
  });
}

bool StepRecord::may_fit() const {
  return std::none_of(gradients.begin(), gradients.end(), [this](const StepGradient& gradient) {
    const Tensor& before = gradient.before;
    if (!before.defined()) return false;
    const auto holds = [&](const Tensor& tensor) { return tensor.impl() == before.impl() ? 1 : 0; };
    long own = holds(before) + holds(gradient.after);
    for (const StepTensor& tensor : tensors) own += holds(tensor.tensor);
    const TensorImpl& impl = *before.impl();
    return before.impl_ptr().use_count() == own && impl.storage.use_count() == 1;
  });
}

void StepRecord::touch() {
  for (Storage* storage : written) storage->bump_version();
  for (StepGradient& gradient : gradients) {
    if (!gradient.sets) continue;
    if (gradient.after.defined()) gradient.after.impl()->storage->bump_version();
    if (!is_same(gradient_in(gradient.leaf), gradient.after)) gradient.leaf.set_grad(gradient.after);
  }
}

// ---- The capture.

StepCapture::StepCapture(Device device, std::shared_ptr<BlockArena> arena, std::size_t limit,
                         std::function<bool()> make_room)
    : device_(device),
      arena_(std::move(arena)),
      limit_(limit),
      make_room_(std::move(make_room)),
      blocks_(arena_->begin()) {
  ADJOINT_ASSERT(current() == nullptr, "a thread captures one step at a time");
  context().capture = this;
}

StepCapture::~StepCapture() { context().capture = nullptr; }

void StepCapture::refuse_waiting(const char* call, const Tensor& got) {
  ADJOINT_CHECK(current() == nullptr,
                "{}: a captured step (GraphedStep) must not wait for the device; got {} {} on {}; return the tensor "
                "from the step, and read it there",
                call, got.dtype(), got.shape(), got.device());
}

void StepCapture::refuse_waiting(const char* call) {
  ADJOINT_CHECK(current() == nullptr,
                "{}: a captured step (GraphedStep) must run on one stream, and not wait for it; call it before or "
                "behind the step",
                call);
}

void StepCapture::refuse_copy(const Tensor& from, const Tensor& to) {
  if (current() != nullptr && from.device() == current()->device_) refuse_waiting("copy", from);
  ADJOINT_CHECK(
      current() == nullptr,
      "copy: a captured step (GraphedStep) must not copy to its device, because every replay would copy the current "
      "elements; got {} {} on {}; pass it as an input, or copy it before the step",
      to.dtype(), to.shape(), from.device());
}

void* StepCapture::allocate(std::size_t nbytes) {
  for (;;) {
    if (void* const data = arena_->allocate(nbytes, limit_, OpScope::op())) return data;
    if (!make_room_()) break;
  }
  throw_out_of_memory(fmt::format(
      "empty: out of memory on {} for a captured step (GraphedStep); asked for {} bytes, with {} of at most "
      "{} in its graphs; {}; raise max_bytes, release tensors or use a smaller batch",
      device_, nbytes, arena_->held(), limit_, memory_report(device_)));
}

StepCapture::Place StepCapture::place(std::size_t nbytes) {
  std::vector<std::unique_ptr<StepValues>>& values = record_.values;
  if (values.empty() || values.back()->used + nbytes > StepValues::kBytes) {
    auto more = std::make_unique<StepValues>();
    more->device = Storage::allocate(StepValues::kBytes, device_);
    values.push_back(std::move(more));
  }
  StepValues& last = *values.back();
  const std::size_t at = last.used;
  last.used = std::min(align(at + nbytes, kValueAlignment), StepValues::kBytes);
  return {last.host.data() + at, static_cast<const std::byte*>(last.device->data()) + at};
}

void StepCapture::use(const Tensor& tensor, bool writes) {
  const TensorImpl& impl = *tensor.impl();
  const Storage& storage = *impl.storage;
  if (storage.data() == nullptr || impl.numel == 0) return;
  ADJOINT_CHECK(storage.device() == device_,
                "kernel: a captured step (GraphedStep) must compute on {} alone, for nothing else is done in a replay; "
                "got {} {} on {}; compute it before the step, or pass it as an input",
                device_, impl.dtype, impl.shape, storage.device());
  if (arena_->is_new(storage.data())) return;
  used_.try_emplace(&impl, tensor);
  if (writes) written_.insert(impl.storage.get());
}

StepGradient& StepCapture::gradient_of(const Tensor& leaf) {
  const auto [found, is_new] = gradients_.try_emplace(leaf.impl(), record_.gradients.size());
  if (is_new) record_.gradients.push_back({.leaf = leaf, .before = gradient_in(leaf), .after = {}});
  return record_.gradients[found->second];
}

void StepCapture::read_gradient(const Tensor& leaf) {
  StepGradient& gradient = gradient_of(leaf);
  if (!gradient.sets) gradient.reads = true;
}

void StepCapture::set_gradient(const Tensor& leaf) { gradient_of(leaf).sets = true; }

StepRecord StepCapture::finish(const std::vector<Tensor>& outputs) {
  std::unordered_set<const void*> expected;
  for (const auto& values : record_.values) expected.insert(values->device->data());
  for (const Tensor& output : outputs) {
    if (output.defined()) expected.insert(output.impl()->storage->data());
  }
  for (const StepGradient& gradient : record_.gradients) {
    const Tensor& after = gradient_in(gradient.leaf);
    if (after.defined()) expected.insert(after.impl()->storage->data());
  }
  for (const BlockArena::Block& block : arena_->new_blocks()) {
    ADJOINT_CHECK(
        expected.count(block.data) != 0,
        "GraphedStep: a tensor that a captured step makes must not outlive it, unless it is returned or a "
        "gradient, for every replay writes over it; got one of {} bytes{}{}; return it, or make it before the "
        "step",
        block.nbytes, block.made_by.empty() ? "" : " made by ", block.made_by);
  }
  for (StepGradient& gradient : record_.gradients) {
    gradient.after = gradient_in(gradient.leaf);
    if (!gradient.reads) gradient.before = {};
  }
  record_.written.assign(written_.begin(), written_.end());
  for (auto& [impl, tensor] : used_) {
    if (tensor.impl_ptr().use_count() > 1) {
      record_.tensors.emplace_back(tensor);
    } else {
      record_.storages.push_back(impl->storage);
    }
  }
  used_.clear();
  return std::move(record_);
}

void StepCapture::abandon() noexcept {
  for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) (*undo)();
  for (StepGradient& gradient : record_.gradients) {
    LeafState* const state = gradient.leaf.impl()->leaf.get();
    if (gradient.sets && state != nullptr) state->grad = gradient.before;
  }
  record_ = {};
}

}  // namespace adjoint::detail

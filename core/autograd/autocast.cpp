#include <adjoint/core/autograd/autocast.h>

#include <adjoint/core/autograd/node.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/context.h>
#include <adjoint/core/tensor/tensor_impl.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace adjoint {
namespace {

// Cast leaves. A cast is reused on the tape that recorded it (or outside every tape if it was made there) until the
// leaf's elements change. Handles to the leaf and its storage are weak: while they are held their addresses are not
// reused, and the cast does not prolong any lifetime.
class Cache {
 public:
  Tensor cast(const Tensor& leaf, DType dtype) {
    const TensorImpl& impl = *leaf.impl();
    Tape* const tape = Tape::current();
    const std::uint64_t serial = tape == nullptr ? 0 : tape->impl().serial();
    const auto found = casts_.find(&impl);
    if (found != casts_.end()) {
      const Cast& cast = found->second;
      if (cast.result.dtype() == dtype && cast.tape == serial && cast.version == impl.storage->version() &&
          cast.storage.lock() == impl.storage) {
        return cast.result;
      }
    } else if (casts_.size() >= purge_at_) {
      std::erase_if(casts_, [](const auto& entry) { return entry.second.leaf.expired(); });
      purge_at_ = 2 * casts_.size() + kFew;
    }
    const std::uint32_t version = impl.storage->version();
    Tensor result = leaf.to(dtype);
    casts_.insert_or_assign(&impl, Cast{leaf.impl_ptr(), impl.storage, version, serial, result});
    return result;
  }
  void clear() { casts_.clear(); }

 private:
  struct Cast {
    std::weak_ptr<const TensorImpl> leaf;
    std::weak_ptr<const Storage> storage;
    std::uint32_t version;
    std::uint64_t tape;  // the tape's serial number; 0: no tape
    Tensor result;
  };
  static constexpr std::size_t kFew = 64;

  std::unordered_map<const TensorImpl*, Cast> casts_;
  std::size_t purge_at_ = kFew;
};

bool is_low(DType dtype) { return dtype == kFloat16 || dtype == kBFloat16; }
// Returns true for tensors that mixed precision casts.
bool is_eligible(const Tensor& x) { return x.defined() && (x.dtype() == kFloat32 || is_low(x.dtype())); }

}  // namespace

namespace detail {

struct AutocastRegion {
  DType dtype;
  bool cache_enabled;
  std::shared_ptr<Cache> cache;  // of the outermost region

  // Only a parameter, not a view of one: tensors that share its storage may be written to through another handle's
  // layout, and checkpoint() makes such leaves of activations, which are never used again.
  bool keeps(const Tensor& x, DType to) const {
    const TensorImpl& impl = *x.impl();
    return cache_enabled && is_low(to) && impl.dtype == kFloat32 && impl.requires_grad && !impl.recorded() &&
           impl.storage.use_count() == 1;
  }
  Tensor cast(const Tensor& x, DType to) const { return keeps(x, to) ? cache->cast(x, to) : x.to(to); }

  // The dtype in which operands under `policy` are computed; empty if they stay unchanged.
  std::optional<DType> target(MixedPrecision policy, std::span<const Tensor> operands) const {
    switch (policy) {
      case MixedPrecision::kLow: return dtype;
      case MixedPrecision::kFull: return kFloat32;
      case MixedPrecision::kAsGiven: return {};
      case MixedPrecision::kFirst: return is_eligible(operands[0]) ? std::optional(operands[0].dtype()) : std::nullopt;
      case MixedPrecision::kWidest: break;
    }
    std::optional<DType> widest;
    for (const Tensor& operand : operands) {
      if (!is_eligible(operand)) continue;
      widest = !widest.has_value() || *widest == operand.dtype() ? operand.dtype() : kFloat32;
    }
    return widest;
  }
};

AutocastRegion* autocast_region() { return context().autocast; }

AutocastSettings autocast_settings() {
  if (context().autocast == nullptr) return {};
  return {context().autocast->dtype, {.enabled = true, .cache_enabled = context().autocast->cache_enabled}};
}

AutocastCall::AutocastCall(MixedPrecision policy, std::span<const Tensor> operands)
    : region_(context().autocast), operands_(operands) {
  if (region_ != nullptr) cast(policy);
}

AutocastCall::AutocastCall(MixedPrecision policy, std::initializer_list<std::reference_wrapper<const Tensor>> operands)
    : region_(context().autocast) {
  if (region_ == nullptr) return;
  own_.assign(operands.begin(), operands.end());
  operands_ = own_;
  cast(policy);
}

AutocastCall::~AutocastCall() = default;

void AutocastCall::cast(MixedPrecision policy) {
  const std::optional<DType> target = region_->target(policy, operands_);
  const auto changes = [&](const Tensor& x) { return is_eligible(x) && x.dtype() != *target; };
  if (!target.has_value() || std::none_of(operands_.begin(), operands_.end(), changes)) return;
  if (own_.empty()) own_.assign(operands_.begin(), operands_.end());
  for (Tensor& operand : own_) {
    if (changes(operand)) operand = region_->cast(operand, *target);
  }
  operands_ = own_;
}

const Tensor& AutocastCall::operator[](std::size_t i) const { return operands_[i]; }

}  // namespace detail

AutocastGuard::AutocastGuard(DType dtype, const AutocastOptions& options) : outer_(detail::context().autocast) {
  ADJOINT_CHECK(is_low(dtype), "AutocastGuard: dtype must be float16 or bfloat16; got {}", dtype);
  if (options.enabled) {
    auto cache = outer_ == nullptr ? std::make_shared<Cache>() : outer_->cache;
    region_.reset(new detail::AutocastRegion{dtype, options.cache_enabled, std::move(cache)});
  }
  detail::context().autocast = region_.get();
}

AutocastGuard::~AutocastGuard() { detail::context().autocast = outer_; }

PauseAutocast::PauseAutocast() : outer_(std::exchange(detail::context().autocast, nullptr)) {}
PauseAutocast::~PauseAutocast() { detail::context().autocast = outer_; }

std::optional<DType> autocast_dtype() {
  return detail::context().autocast == nullptr ? std::nullopt : std::optional(detail::context().autocast->dtype);
}

void clear_autocast_cache() {
  if (detail::context().autocast != nullptr) detail::context().autocast->cache->clear();
}

}  // namespace adjoint

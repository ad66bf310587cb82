#include <adjoint/core/distributed/world.h>

#include <adjoint/core/base/check.h>
#include <adjoint/core/distributed/engine.h>
#include <adjoint/core/tensor/copy.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace adjoint::distributed {
namespace {

constexpr std::chrono::minutes kTimeout{10};

bool initialized = false;

std::unique_ptr<Engine>& slot() {
  static auto* const engine = new std::unique_ptr<Engine>;  // outlives static destructors that still use it
  return *engine;
}

}  // namespace

bool is_initialized() { return initialized; }
int rank() { return slot() ? slot()->rank() : 0; }
int world_size() { return slot() ? slot()->world_size() : 1; }
int local_rank() { return slot() ? slot()->local_rank() : 0; }

Engine* engine() { return slot().get(); }

void install_engine(std::unique_ptr<Engine> engine) {
  ADJOINT_CHECK(!initialized, "distributed::init: must be called once; got a second call");
  initialized = true;
  slot() = std::move(engine);
}

void remove_engine() { slot().reset(); }

void run(const Call& call, const Tensor& in, Tensor& out) {
  if (slot()) return slot()->run(call, in, out);
  if (in.defined() && in.impl() != out.impl()) copy_into(in, out);
}

std::string broadcast_text(const std::string& text, int root, const std::string& caller) {
  if (!slot()) return text;
  const Call call{.kind = Kind::kBroadcast, .root = root, .caller = caller};
  Tensor size = Tensor::scalar(static_cast<double>(text.size()), {.dtype = kInt64});
  run(call, size, size);
  Tensor bytes = Tensor::empty({size.item<std::int64_t>()}, {.dtype = kUInt8});
  if (bytes.numel() == 0) return {};
  if (rank() == root) std::memcpy(bytes.raw_mutable_data(), text.data(), text.size());
  run(call, bytes, bytes);
  return {static_cast<const char*>(bytes.raw_data()), static_cast<std::size_t>(bytes.numel())};
}

void fail_everywhere(const std::string& reason) {
  if (slot()) slot()->tell_failure(reason);
  throw_error(reason);
}

std::chrono::milliseconds resolve_timeout(const InitOptions& options) {
  const auto within = [](double seconds) { return seconds >= 0.001 && seconds <= 1e9; };
  const auto rounded = [](double seconds) { return std::chrono::milliseconds(std::llround(seconds * 1000.0)); };
  if (options.timeout) {
    ADJOINT_CHECK(within(*options.timeout), "distributed::init: the timeout must be 0.001 to 1e9 seconds; got {}",
                  *options.timeout);
    return rounded(*options.timeout);
  }
  const char* const text = std::getenv("ADJOINT_DISTRIBUTED_TIMEOUT");
  if (text == nullptr) return kTimeout;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  ADJOINT_CHECK(end != text && *end == '\0' && within(seconds),
                "distributed::init: ADJOINT_DISTRIBUTED_TIMEOUT must be seconds, 0.001 to 1e9; got '{}'", text);
  return rounded(seconds);
}

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"all_reduce", "broadcast",       "all_gather", "reduce_scatter",
                                   "barrier",    "a step's replay", "finalize",   "report a failure"};
  return names[static_cast<std::size_t>(kind)];
}

const char* name_of(ReduceOp op) {
  constexpr const char* names[] = {"kSum", "kAvg", "kProduct", "kMin", "kMax"};
  return names[static_cast<std::size_t>(op)];
}

void detail::start_alone(const InitOptions& options) {
  resolve_timeout(options);
  const std::pair<const char*, const char*> alone[] = {{"OMPI_COMM_WORLD_SIZE", "1"},
                                                       {"PMI_SIZE", "1"},
                                                       {"PMIX_RANK", "0"}};
  for (const auto& [variable, expected] : alone) {
    const char* const value = std::getenv(variable);
    ADJOINT_CHECK(value == nullptr || std::strcmp(value, expected) == 0,
                  "distributed::init: a program of several processes must be linked with Adjoint::distributed; got "
                  "{}={} without that library; link it, or start the program alone",
                  variable, value);
  }
  install_engine(nullptr);
}

}  // namespace adjoint::distributed

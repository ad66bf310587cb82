// Finds a call's row. A thread finds known calls in its own table; only new ones, and adding sums, need a lock, which
// has no contention before the Profiler stops.
#include <adjoint/core/profile/profiled_call.h>

#include <adjoint/core/autograd/module_calls.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/forked.h>
#include <adjoint/core/base/precision.h>
#include <adjoint/core/profile/profile_session.h>
#include <adjoint/core/tensor/tensor.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <set>
#include <unordered_set>
#include <utility>

#if defined(ADJOINT_WITH_CUDA)
#include <adjoint/core/cuda/profile.h>
#endif

namespace adjoint::detail {

constinit std::atomic<bool> Profiling::on_{false};

namespace {

std::mutex current_guard;
const HeldAtFork current_at_fork(current_guard);
std::shared_ptr<ProfileSession> current;
std::atomic<ProfileSession*> current_address{nullptr};

struct ThisThread {
  std::shared_ptr<ProfileSession> session;
  ProfiledThread* thread = nullptr;
  ProfiledCall* open = nullptr;  // the innermost
};
thread_local ThisThread this_thread;

// Null if no Profiler collects, and inside a call that began under another one.
ProfiledThread* enter() {
  ThisThread& own = this_thread;
  if (own.session != nullptr && own.session.get() == current_address.load(std::memory_order_acquire)) return own.thread;
  if (own.open != nullptr) return nullptr;
  const std::lock_guard lock(current_guard);
  own.thread = nullptr;
  own.session = current;
  if (own.session == nullptr) return nullptr;
  auto thread = std::make_unique<ProfiledThread>();
  thread->system_id = gettid();
  const std::lock_guard session_lock(own.session->mutex);
  thread->index = static_cast<std::uint32_t>(own.session->threads.size());
  own.session->threads.push_back(std::move(thread));
  own.thread = own.session->threads.back().get();
  return own.thread;
}

// Strings that places point to; there are as many as names of modules, scopes and operators.
const std::string* intern(std::string text) {
  static std::mutex guard;
  static const HeldAtFork at_fork(guard);
  static auto* const strings = new std::unordered_set<std::string>;  // threads may end after static objects
  const std::lock_guard lock(guard);
  return &*strings->insert(std::move(text)).first;
}

template <class T>
void put(std::string& key, const T& value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_dims(std::string& key, const Dims& dims) {
  put(key, static_cast<std::uint8_t>(dims.size()));
  for (const std::int64_t extent : dims) put(key, extent);
}

std::string shapes_of(std::span<const Tensor> in) {
  std::string text;
  const Tensor* before = nullptr;
  for (const Tensor& operand : in) {
    if (!text.empty()) text += ", ";
    if (!operand.defined()) {
      text += "none";
      continue;
    }
    if (before == nullptr || before->dtype() != operand.dtype()) text += to_string(operand.dtype()) + ' ';
    text += to_string(operand.shape());
    before = &operand;
  }
  return text;
}

double stored_bytes(const Tensor& tensor) {
  if (!tensor.defined()) return 0.0;
  auto bytes = static_cast<double>(element_size(tensor.dtype()));
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    if (tensor.strides()[i] != 0 || tensor.shape()[i] == 0) bytes *= static_cast<double>(tensor.shape()[i]);
  }
  return bytes;
}

}  // namespace

std::int64_t profile_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double moved_bytes(std::span<const Tensor> in, std::span<const Tensor> out) {
  double bytes = 0.0;
  for (const Tensor& tensor : in) bytes += stored_bytes(tensor);
  for (const Tensor& tensor : out) bytes += stored_bytes(tensor);
  return bytes;
}

ProfilePlace gradient_place(const char* op) {
  ProfilePlace place = Profiling::place();
  const char* const called = OpScope::op();
  place.caller = intern(std::string(called == nullptr ? op : called) + " backward");
  return place;
}

void ProfiledCall::begin_operator(const char* op, std::span<const Tensor> in) {
  ProfiledThread* const thread = enter();
  if (thread == nullptr) return;
  const ProfilePlace place = Profiling::place();
  const auto first = std::find_if(in.begin(), in.end(), [](const Tensor& operand) { return operand.defined(); });
  const Device device = first == in.end() ? kCPU : first->device();
  const char* caller = place.caller != nullptr ? place.caller->c_str() : OpScope::op();
  if (caller == nullptr || std::strcmp(caller, op) == 0) caller = "";
  const bool tf32 = float32_precision() == Precision::kTF32;

  std::string& key = thread->key;
  key.clear();
  key.append(op, std::strlen(op) + 1).append(caller, std::strlen(caller) + 1);
  put(key, place.path);
  put(key, device.type);
  put(key, device.index);
  put(key, tf32);
  for (const Tensor& operand : in) {
    put(key, operand.defined() ? operand.dtype() : DType{0xff});
    if (operand.defined()) put_dims(key, operand.shape());
  }
  const ProfiledRow& row = this_thread.session->row(*thread, [&] {
    return ProfiledRow{.kind = ProfiledKind::kOperator,
                       .op = op,
                       .caller = caller,
                       .module = place.path == nullptr ? std::string() : *place.path,
                       .shapes = shapes_of(in),
                       .device = device,
                       .dtype = first == in.end() ? kFloat32 : first->dtype(),
                       .tf32 = tf32};
  });
  before_ = place;
  begin(*thread, row, device);
}

void ProfiledCall::begin_named(ProfiledKind kind, std::string_view name, Device device) {
  ProfiledThread* const thread = enter();
  if (thread == nullptr) return;
  const ProfilePlace place = Profiling::place();
  std::string& key = thread->key;
  key.assign(1, '\0').append(name) += '\0';  // operators' names are never empty
  put(key, kind);
  put(key, place.path);
  put(key, device.type);
  put(key, device.index);

  const std::string_view outside = place.path == nullptr ? std::string_view() : std::string_view(*place.path);
  ProfilePlace inside = place;
  std::string path(kind == ProfiledKind::kScope ? outside : outside.substr(0, place.scopes));
  if (!path.empty()) path += '/';
  inside.path = intern(path.append(name));
  if (kind == ProfiledKind::kScope) inside.scopes = inside.path->size();

  const ProfiledRow& row = this_thread.session->row(*thread, [&] {
    ProfiledRow made{.kind = kind, .device = device};
    made.module = kind == ProfiledKind::kScope ? outside : *inside.path;
    if (kind == ProfiledKind::kScope) made.op = name;
    return made;
  });
  before_ = place;
  begin(*thread, row, device);
  Profiling::set_place(inside);
}

void ProfiledCall::begin(ProfiledThread& thread, const ProfiledRow& row, Device device) {
  const ProfilerOptions& options = this_thread.session->options;
  timed_ = device.is_cuda() && options.device_timer != nullptr;
  if (timed_) options.device_timer->begin(row.id, device);
#if defined(ADJOINT_WITH_CUDA)
  if (options.nvtx) cuda::push_range(row.label().c_str());
#endif
  outer_ = std::exchange(this_thread.open, this);
  row_ = row.id;
  module_ = row.kind == ProfiledKind::kModule;
  inside_ns_ = 0;
  bytes_ = flop_ = 0.0;
  thread_ = &thread;
  start_ns_ = profile_clock();
}

void ProfiledCall::end() noexcept {
  const std::int64_t total = profile_clock() - start_ns_;
  ProfileSession& session = *this_thread.session;
#if defined(ADJOINT_WITH_CUDA)
  if (session.options.nvtx) cuda::pop_range();
#endif
  if (timed_) session.options.device_timer->end();
  Profiling::set_place(before_);
  this_thread.open = outer_;
  // A module has no row of its own: its time outside its calls counts for its caller.
  if (outer_ != nullptr) outer_->inside_ns_ += module_ ? inside_ns_ : total;
  const std::lock_guard lock(thread_->mutex);
  if (thread_->stopped) return;
  try {
    if (thread_->sums.size() <= row_) thread_->sums.resize(row_ + std::size_t{1});
    thread_->sums[row_].add({1, total, total - inside_ns_, bytes_, flop_});
    if (session.room.fetch_sub(1, std::memory_order_relaxed) > 0) {
      thread_->calls.push_back({row_, thread_->index, start_ns_, total});
    } else {
      ++thread_->untraced;
    }
  } catch (const std::bad_alloc&) {
    ++thread_->untraced;
  }
}

std::string ProfiledRow::label() const {
  if (kind == ProfiledKind::kModule) return module;
  return caller.empty() ? op : caller + '/' + op;
}

const ProfiledRow& ProfileSession::add_row(ProfiledThread& thread, ProfiledRow row) {
  const std::lock_guard lock(mutex);
  auto known = rows_by_key.find(std::string_view(thread.key));
  if (known == rows_by_key.end()) {
    row.id = static_cast<std::uint32_t>(rows.size());
    rows.push_back(std::move(row));
    known = rows_by_key.emplace(thread.key, &rows.back()).first;
  }
  thread.rows.insert(*known);
  return *known->second;
}

void ProfileSession::start(const std::shared_ptr<ProfileSession>& session) {
  const std::lock_guard lock(current_guard);
  ADJOINT_CHECK(current == nullptr,
                "Profiler: one at a time may collect; got a second of this process; stop() the other one first");
  session->room.store(static_cast<std::int64_t>(session->options.max_trace_calls), std::memory_order_relaxed);
  if (session->options.device_timer != nullptr) session->options.device_timer->start(session->options.max_trace_calls);
  session->start_ns = profile_clock();
  current = session;
  current_address.store(session.get(), std::memory_order_release);
  Profiling::on_.store(true, std::memory_order_relaxed);
  ModuleCalls::watch(ModuleWatcher::kProfiler, true);
}

void ProfileSession::stop() {
  {
    const std::lock_guard lock(current_guard);
    if (current.get() != this) return;
    Profiling::on_.store(false, std::memory_order_relaxed);
    ModuleCalls::watch(ModuleWatcher::kProfiler, false);
    current_address.store(nullptr, std::memory_order_release);
    current.reset();  // the Profiler owns this one
  }
  auto collected = std::make_unique<ProfileResult>();
  const std::lock_guard lock(mutex);
  collected->sums.resize(rows.size());
  for (const auto& thread : threads) {
    const std::lock_guard thread_lock(thread->mutex);
    thread->stopped = true;
    for (std::size_t row = 0; row < thread->sums.size(); ++row) collected->sums[row].add(thread->sums[row]);
    collected->calls.insert(collected->calls.end(), thread->calls.begin(), thread->calls.end());
    collected->threads.push_back(thread->system_id);
    collected->untraced += thread->untraced;
    thread->sums = {};
    thread->calls = {};
  }
  result = std::move(collected);
  if (options.device_timer == nullptr) return;
#if defined(ADJOINT_WITH_CUDA)
  std::set<int> devices;
  for (const ProfiledRow& row : rows) {
    if (row.device.is_cuda()) devices.insert(row.device.index);
  }
  for (const int device : devices) cuda::wait_for_device(device);
#endif
  result->device = options.device_timer->stop();
}

}  // namespace adjoint::detail

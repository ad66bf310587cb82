// Checkpoint: a whole training in one safetensors file, which resumes to the bit.
//
//   nn::Checkpoint checkpoint("runs/7", {.keep_last = 3, .keep_best = 1, .background = true});
//   checkpoint.add("model", net);
//   checkpoint.add("adam", adam);
//   checkpoint.add("schedule", schedule);
//   checkpoint.add("loader", loader);
//   checkpoint.add("curve", curve);  // a std::vector<double> of the program's own
//   checkpoint.add_random_state();
//
//   std::int64_t step = checkpoint.resume().value_or(0);
//   while (step < steps) {
//     ...
//     if (++step % 1000 == 0) checkpoint.save(step, {.metric = loss});
//   }
//   checkpoint.wait();
//
// The file runs/7/checkpoint-1000.safetensors holds the added members under "model.<name>", "adam.<name>", ..., a value
// that is one tensor under "curve", and its checksum, so that damage is detected. A file appears completely or not at
// all, and is on the disk before an older one is removed: an intact file survives any end of the process or the
// machine. Other programs read only the weights with load_safetensors, renaming "model.<name>" (docs/weights.md).
#pragma once

#include <adjoint/core/base/export.h>
#include <adjoint/core/base/owned.h>
#include <adjoint/core/tensor/named_tensors.h>
#include <adjoint/nn/checkpoint_values.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

class BackgroundWriter;

struct CheckpointOptions {
  /// The number of newest files that are kept, at least 1 ...
  std::int64_t keep_last = 3;
  /// ... and the number of files with the best metrics.
  std::int64_t keep_best = 0;
  /// The best metric is the largest, not the smallest.
  bool maximize = false;
  /// A thread writes, while the training continues after save() has made a copy.
  bool background = false;
  /// Receives messages about files that are skipped, one line each; if empty, they go to stderr.
  std::function<void(const std::string& message)> warn = {};
};

struct SaveOptions {
  /// The metric for keep_best; a missing metric and NaN rank below every number.
  std::optional<double> metric = {};
};

/// A file in a checkpoint's folder.
struct CheckpointFile {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::optional<double> metric = {};
  std::int64_t sequence = 0;  // higher than that of each file that existed when it was written
};

/// Used by one thread at a time. Each training run needs its own folder.
class ADJOINT_API Checkpoint {
 public:
  /// Touches no file yet. Throws Error for an empty folder name and for options out of range.
  explicit Checkpoint(std::filesystem::path folder, const CheckpointOptions& options = {});
  /// Waits for the thread; its error becomes a message.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // ---- Parts. Names are not empty, hold no dot, do not begin with "__" and are distinct, else Error is thrown.
  // Without options.strict a part that differs from its state in the file, such as a loader with another batch size,
  // loads as much as it can, by the rules of its load_state_dict() or load_state(). A part that the file lacks does not
  // change. A part must outlive the checkpoint and keep its address. Parts are loaded in the order in which they were
  // added: an optimiser comes before its schedule.

  /// An object with state_dict() and load_state_dict(), or state() and load_state(); a Generator; a Tensor, whose
  /// elements are kept; or a value (CheckpointValue).
  template <class T>
  void add(const std::string& name, T& object, const LoadStateOptions& options = {}) {
    static_assert(HasStateDict<T> || HasState<T> || std::is_same_v<T, Generator> || std::is_same_v<T, Tensor> ||
                      CheckpointValue<T>,
                  "a checkpoint keeps objects with state_dict() and load_state_dict(), or state() and load_state(), "
                  "Generators, tensors, numbers, text, and vectors of numbers; give two callables for anything else");
    add_member({.name = name,
                .state = [&object] { return detail::state_of(object); },
                .load = [&object, options](const NamedTensors& state) { detail::load_state(state, object, options); },
                .strict = options.strict});
  }
  /// `get` returns a CheckpointValue, and `set` receives one. Exceptions of either propagate out of save() or load().
  template <class Get, class Set>
  requires CheckpointValue<std::remove_cvref_t<std::invoke_result_t<Get&>>>
  void add(const std::string& name, Get get, Set set) {
    using Value = std::remove_cvref_t<std::invoke_result_t<Get&>>;
    add_member({.name = name,
                .state = [get]() mutable { return detail::value_state<Value>(get()); },
                .load = [set](const NamedTensors& state) mutable { set(detail::value_of<Value>(state)); },
                .all_or_nothing = false});
  }
  /// default_generator() of the thread that saves, and loads. All devices draw from it; other threads' generators
  /// derive from manual_seed(), which the program must call as before.
  void add_random_state(const std::string& name = "random");

  /// Writes <folder>/checkpoint-<step>.safetensors, creating the folder if necessary, and then removes the files that
  /// are not to be kept. With .background it returns as soon as everything is copied to the CPU, after waiting for the
  /// previous file. Throws Error, naming the path, if writing fails; with .background, the next call of save() (which
  /// then does nothing else) or wait() throws it. Older files still exist, and the training can continue. Throws Error
  /// for a negative step and for an undefined tensor.
  void save(std::int64_t step, const SaveOptions& options = {});
  /// Returns when everything saved is on the disk. Throws the thread's error since the last call, once.
  void wait();

  /// Loads the newest file and returns its step; empty if the folder has none. A file that is damaged, or does not fit,
  /// is skipped with a message, and the one before it is tried. Throws Error if none can be loaded: start anew in
  /// another folder, or remove them.
  std::optional<std::int64_t> resume();
  /// Loads one file and returns its step. Throws Error, and changes nothing, unless it is intact, has exactly the added
  /// members, and every member accepts its part; also throws exceptions of callables.
  std::int64_t load(const std::filesystem::path& path);

  /// The folder's files whose headers can be read, newest first, without a file that is being written.
  std::vector<CheckpointFile> files() const;
  /// The file with the best metric, the newest of several; empty if no file has a metric.
  std::optional<CheckpointFile> best() const;

 private:
  struct Member {
    std::string name;
    std::function<NamedTensors()> state;
    std::function<void(const NamedTensors&)> load;
    bool all_or_nothing = true;
    bool strict = true;
  };

  void add_member(Member member);
  NamedTensors state() const;
  void load_parts(const std::filesystem::path& path, const std::vector<NamedTensors>& parts);
  void put_back(const std::filesystem::path& path, const std::vector<NamedTensors>& before, std::size_t count);
  void warn(const std::string& message) const;

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::vector<Member> members_;
  Owned<BackgroundWriter> writer_;
};

}  // namespace adjoint::nn

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
// The file runs/7/checkpoint-1000.safetensors holds what was added under "model.<name>", "adam.<name>", ..., a value
// that is one tensor under "curve", and its checksum, so that damage is found. A file appears whole or not at all and
// is on the disk before an older one is removed: whatever ends the process or the machine, a whole one is there. Other
// programs read the weights alone by load_safetensors, renaming "model.<name>" (docs/weights.md).
#pragma once

#include <adjoint/core/export.h>
#include <adjoint/core/named_tensors.h>
#include <adjoint/nn/checkpoint_values.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adjoint::nn {

class BackgroundWriter;

struct CheckpointOptions {
  /// The newest files are kept, at least 1 ...
  std::int64_t keep_last = 3;
  /// ... and those of the best metrics.
  std::int64_t keep_best = 0;
  /// The best metric is the largest, not the smallest.
  bool maximize = false;
  /// A thread writes, while the training goes on from the copy that save() has made.
  bool background = false;
  /// Gets messages on files that are passed over, a line each; else they go to stderr.
  std::function<void(const std::string& message)> warn = {};
};

struct SaveOptions {
  /// What keep_best goes by; nothing, and NaN, are worse than any number.
  std::optional<double> metric = {};
};

/// A file in a checkpoint's folder.
struct CheckpointFile {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::optional<double> metric = {};
  std::int64_t sequence = 0;  // higher than that of each file that was there when it was written
};

/// Used by one thread at a time. A folder belongs to one training.
class ADJOINT_API Checkpoint {
 public:
  /// Touches nothing yet. Throws Error for an empty folder's name and for options out of range.
  explicit Checkpoint(std::filesystem::path folder, const CheckpointOptions& options = {});
  /// Waits for the thread; what it failed at becomes a message.
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // ---- What is kept. Names are not empty, hold no dot, do not begin with "__" and are distinct, else Error is thrown.
  // What is added must outlive the checkpoint and stay where it is. It is loaded in the order in which it was added: an
  // optimiser comes before its schedule.

  /// What has state_dict() and load_state_dict(), or state() and load_state(); a Generator, a Tensor, whose elements
  /// are kept, or a value (CheckpointValue).
  template <class T>
  void add(const std::string& name, T& object) {
    static_assert(HasStateDict<T> || HasState<T> || std::is_same_v<T, Generator> || std::is_same_v<T, Tensor> ||
                      CheckpointValue<T>,
                  "a checkpoint keeps what has state_dict() and load_state_dict(), or state() and load_state(), "
                  "Generators, tensors, numbers, text, and vectors of numbers; give two callables for anything else");
    add_member({.name = name,
                .state = [&object] { return detail::state_of(object); },
                .load = [&object](const NamedTensors& state) { detail::load_state(state, object); }});
  }
  /// What `get` returns, a CheckpointValue, and `set` takes. What either throws leaves save() or load().
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
  /// follow from manual_seed(), which the program calls as it did before.
  void add_random_state(const std::string& name = "random");

  /// Writes <folder>/checkpoint-<step>.safetensors, making the folder where there is none, and then removes the files
  /// that are not to be kept. With .background it returns as soon as everything is copied to the CPU, having waited for
  /// the file before this one. Throws Error, naming the path, where writing fails, with .background at the next call of
  /// save() (which does nothing else then) or wait(): older files are still there, and the training can go on. Throws
  /// Error for a negative step and for a tensor that is undefined.
  void save(std::int64_t step, const SaveOptions& options = {});
  /// Returns when what was saved is on the disk. Throws what the thread failed at since the last call, once.
  void wait();

  /// Loads the newest file and returns its step; nothing where the folder has none. One that is damaged, or does not
  /// fit, is passed over with a message for the one before it. Throws Error where none can be loaded: begin anew in
  /// another folder, or remove them.
  std::optional<std::int64_t> resume();
  /// Loads one file and returns its step. Throws Error unless it is whole, has just what was added, and everything
  /// takes its part; and what a callable throws. Everything is as it was then.
  std::int64_t load(const std::filesystem::path& path);

  /// The folder's files whose beginnings can be read, newest first; not one that is being written.
  std::vector<CheckpointFile> files() const;
  /// That of the best metric, of several the newest; nothing where no file has one.
  std::optional<CheckpointFile> best() const;

 private:
  struct Member {
    std::string name;
    std::function<NamedTensors()> state;
    std::function<void(const NamedTensors&)> load;
    bool all_or_nothing = true;
  };

  void add_member(Member member);
  NamedTensors state() const;
  void load_parts(const std::filesystem::path& path, const std::vector<NamedTensors>& parts);
  void put_back(const std::filesystem::path& path, const std::vector<NamedTensors>& before, std::size_t count);
  void warn(const std::string& message) const;

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::vector<Member> members_;
  std::unique_ptr<BackgroundWriter> writer_;
};

}  // namespace adjoint::nn

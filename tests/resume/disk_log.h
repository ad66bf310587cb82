// A program's changes to the disk, and every state that a power cut may leave of it. This program's own write, fsync,
// openat, mkdir, renameat, unlink, unlinkat and remove replace libc's, for the library too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace adjoint::testing {

struct DiskEvent {
  enum Kind { kCreate, kMakeFolder, kRename, kUnlink, kWrite, kFlush, kFlushFolder, kMark };
  Kind kind = kMark;
  std::string path = {}, to = {};  // within the folder that is watched
  int file = -1;                   // numbered as they are created
  std::string bytes = {};
  std::int64_t mark = 0;
};
using DiskEvents = std::vector<DiskEvent>;

/// Records the events in and below `folder`, which must exist, while it lives. One at a time.
class DiskLog {
 public:
  explicit DiskLog(const std::filesystem::path& folder);
  ~DiskLog();
  DiskLog(const DiskLog&) = delete;
  DiskLog& operator=(const DiskLog&) = delete;

  /// Promises that everything before this point lasts.
  void mark(std::int64_t value);
  DiskEvents events() const;
};

/// Files and folders, by their paths within the folder that was watched.
struct DiskState {
  std::map<std::string, std::string> files;
  std::set<std::string> folders;
  auto operator<=>(const DiskState&) const = default;

  /// Writes it into `folder`, which holds nothing else afterwards.
  void write(const std::filesystem::path& folder) const;
};

/// Calls f(state, promised) for every state that a power cut during the events may leave, each once for each of the
/// marks that may precede it; `promised` is the last mark, or -1. Each change of names (made, changed or removed) since
/// their folder was flushed is on the disk or not, independently of the others; data written to a file since it was
/// flushed are there, are not there, end anywhere, or are zeros, in whole or in part.
void each_state_after_a_power_cut(const DiskEvents& events,
                                  const std::function<void(const DiskState& state, std::int64_t promised)>& f);

}  // namespace adjoint::testing

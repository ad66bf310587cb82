// What a program does to the disk, and every state that a power cut may leave of it. This program's own write, fsync,
// openat, mkdir, renameat, unlink, unlinkat and remove stand before libc's, for the library too.
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

/// Records what happens in and below `folder`, which is there, while it lives. One at a time.
class DiskLog {
 public:
  explicit DiskLog(const std::filesystem::path& folder);
  ~DiskLog();
  DiskLog(const DiskLog&) = delete;
  DiskLog& operator=(const DiskLog&) = delete;

  /// What has happened before this point is promised to last.
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
/// marks that may precede it; `promised` is the last mark, -1 where there is none. Names that were made, changed or
/// removed since their folder was flushed are so on the disk or not, any of them without the others; what was written
/// to a file since it was flushed is there, is not there, ends anywhere, or is zeros, in whole or in part.
void each_state_after_a_power_cut(const DiskEvents& events,
                                  const std::function<void(const DiskState& state, std::int64_t promised)>& f);

}  // namespace adjoint::testing

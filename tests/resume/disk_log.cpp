#include <adjoint/tests/resume/disk_log.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace adjoint::testing {
namespace {

namespace fs = std::filesystem;

struct Log {
  std::mutex mutex;  // guards everything
  bool on = false;
  std::string folder;
  DiskEvents events;
  std::map<ino_t, int> numbers;      // of the files that there are
  std::map<std::string, int> names;  // their numbers
  int count = 0;
};
Log& the_log() {
  static Log log;
  return log;
}

std::string path_of(int descriptor) {
  if (descriptor == AT_FDCWD) return fs::current_path().string();
  char target[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof(target));
  return {target, static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

// Calls f(log, path within the folder) if the path is below the watched folder.
template <class F>
void record(int folder, const char* name, const F& f) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (!log.on) return;
  const std::string path = (fs::path(path_of(folder)) / name).lexically_normal().string();
  if (path.starts_with(log.folder + "/")) f(log, path.substr(log.folder.size() + 1));
}

// Calls f(log, number) if a descriptor's file was created below the watched folder.
template <class F>
void record_file(int descriptor, const F& f) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (!log.on) return;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return;
  if (const auto found = log.numbers.find(status.st_ino); found != log.numbers.end()) f(log, found->second);
}

void record_create(int folder, const char* name, int descriptor) {
  record(folder, name, [&](Log& log, const std::string& path) {
    struct stat status {};
    ::fstat(descriptor, &status);
    const int number = log.count++;
    log.numbers[status.st_ino] = number;  // a file that is gone may have had this inode
    log.names[path] = number;
    log.events.push_back({.kind = DiskEvent::kCreate, .path = path, .file = number});
  });
}

void record_rename(int from_folder, const char* from, int to_folder, const char* to) {
  record(from_folder, from, [&](Log& log, const std::string& path) {
    const std::string target = (fs::path(path_of(to_folder)) / to).lexically_normal().string();
    const std::string inside = target.substr(log.folder.size() + 1);
    log.events.push_back({.kind = DiskEvent::kRename, .path = path, .to = inside, .file = log.names.at(path)});
    log.names[inside] = log.names.at(path);
    log.names.erase(path);
  });
}

void record_unlink(int folder, const char* name) {
  record(folder, name, [&](Log& log, const std::string& path) {
    log.names.erase(path);
    log.events.push_back({.kind = DiskEvent::kUnlink, .path = path});
  });
}

std::string parent_of(const std::string& path) { return fs::path(path).parent_path().string(); }

bool changes_names(DiskEvent::Kind kind) { return kind <= DiskEvent::kUnlink; }

// The possible contents of an unflushed file: `flushed` bytes as written, the rest anything.
std::vector<std::string> contents(const std::string& bytes, std::size_t flushed) {
  if (flushed == bytes.size()) return {bytes};
  const std::size_t middle = flushed + (bytes.size() - flushed) / 2;
  std::string zeros = bytes, late = bytes, early = bytes;
  std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(flushed), zeros.end(), '\0');
  std::fill(late.begin() + static_cast<std::ptrdiff_t>(flushed), late.begin() + static_cast<std::ptrdiff_t>(middle),
            '\0');
  std::fill(early.begin() + static_cast<std::ptrdiff_t>(middle), early.end(), '\0');
  return {bytes, bytes.substr(0, flushed), bytes.substr(0, middle), bytes.substr(0, bytes.size() - 1), zeros, late,
          early};
}

// The names on the disk if the unflushed changes in `lasting` are on it; and the files that may be half written.
DiskState state_with(const DiskEvents& events, std::size_t end, const std::set<std::size_t>& lost,
                     const std::map<int, std::string>& content) {
  std::map<std::string, int> names;
  DiskState state;
  for (std::size_t i = 0; i < end; ++i) {
    const DiskEvent& event = events[i];
    if (lost.contains(i)) continue;
    if (event.kind == DiskEvent::kMakeFolder) state.folders.insert(event.path);
    if (event.kind == DiskEvent::kCreate) names[event.path] = event.file;
    if (event.kind == DiskEvent::kUnlink || event.kind == DiskEvent::kRename) names.erase(event.path);
    if (event.kind == DiskEvent::kRename) names[event.to] = event.file;
  }
  std::erase_if(state.folders, [&](const std::string& folder) {
    const std::string parent = parent_of(folder);
    return !parent.empty() && !state.folders.contains(parent);
  });
  for (const auto& [name, file] : names) {
    const std::string parent = parent_of(name);
    if (parent.empty() || state.folders.contains(parent)) state.files[name] = content.at(file);
  }
  return state;
}

void each_state_at(const DiskEvents& events, std::size_t end, const std::function<void(const DiskState&)>& f) {
  std::vector<std::size_t> pending;
  std::map<int, std::string> written;
  std::map<int, std::size_t> flushed;
  for (std::size_t i = 0; i < end; ++i) {
    const DiskEvent& event = events[i];
    if (changes_names(event.kind)) pending.push_back(i);
    if (event.kind == DiskEvent::kCreate) written[event.file] = "";
    if (event.kind == DiskEvent::kWrite) written[event.file] += event.bytes;
    if (event.kind == DiskEvent::kFlush) flushed[event.file] = written[event.file].size();
    if (event.kind == DiskEvent::kFlushFolder) {
      std::erase_if(pending, [&](std::size_t p) { return parent_of(events[p].path) == event.path; });
    }
  }
  std::vector<std::map<int, std::string>> all{{}};
  for (const auto& [file, bytes] : written) {
    std::vector<std::map<int, std::string>> longer;
    for (const auto& content : contents(bytes, flushed[file])) {
      for (auto some : all) {
        some[file] = content;
        longer.push_back(std::move(some));
      }
    }
    all = std::move(longer);
  }
  for (std::size_t subset = 0; subset < std::size_t{1} << pending.size(); ++subset) {
    std::set<std::size_t> lost;
    for (std::size_t i = 0; i < pending.size(); ++i) {
      if ((subset >> i & 1) != 0) lost.insert(pending[i]);
    }
    for (const auto& content : all) f(state_with(events, end, lost, content));
  }
}

}  // namespace

DiskLog::DiskLog(const fs::path& folder) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.on = true;
  log.folder = fs::canonical(folder).string();
  log.events.clear();
  log.numbers.clear();
  log.names.clear();
}

DiskLog::~DiskLog() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.on = false;
}

void DiskLog::mark(std::int64_t value) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.events.push_back({.kind = DiskEvent::kMark, .mark = value});
}

DiskEvents DiskLog::events() const {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  return log.events;
}

void DiskState::write(const fs::path& folder) const {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const std::string& path : folders) fs::create_directories(folder / path);
  for (const auto& [path, bytes] : files) std::ofstream(folder / path, std::ios::binary) << bytes;
}

void each_state_after_a_power_cut(const DiskEvents& events,
                                  const std::function<void(const DiskState& state, std::int64_t promised)>& f) {
  std::int64_t promised = -1;
  std::set<std::pair<DiskState, std::int64_t>> seen;
  for (std::size_t end = 0; end <= events.size(); ++end) {
    if (end > 0 && events[end - 1].kind == DiskEvent::kMark) promised = events[end - 1].mark;
    each_state_at(events, end, [&](const DiskState& state) {
      if (seen.emplace(state, promised).second) f(state, promised);
    });
  }
}

}  // namespace adjoint::testing

// ---- libc's functions. A call that fails records nothing.

using namespace adjoint::testing;

#pragma GCC visibility push(default)  // the library must find these
extern "C" {

ssize_t write(int descriptor, const void* data, std::size_t bytes) {
  const ssize_t count = ::syscall(SYS_write, descriptor, data, bytes);
  if (count > 0) {
    record_file(descriptor, [&](Log& log, int number) {
      log.events.push_back({.kind = DiskEvent::kWrite,
                            .file = number,
                            .bytes = {static_cast<const char*>(data), static_cast<std::size_t>(count)}});
    });
  }
  return count;
}

int fsync(int descriptor) {
  const auto result = static_cast<int>(::syscall(SYS_fsync, descriptor));
  if (result != 0) return result;
  record_file(descriptor,
              [](Log& log, int number) { log.events.push_back({.kind = DiskEvent::kFlush, .file = number}); });
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    Log& log = the_log();
    const std::lock_guard lock(log.mutex);
    const std::string path = path_of(descriptor);
    if (log.on && (path == log.folder || path.starts_with(log.folder + "/"))) {
      const std::string inside = path == log.folder ? "" : path.substr(log.folder.size() + 1);
      log.events.push_back({.kind = DiskEvent::kFlushFolder, .path = inside});
    }
  }
  return result;
}

int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    std::va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const auto descriptor = static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
  if (descriptor >= 0 && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) record_create(folder, path, descriptor);
  return descriptor;
}

int mkdir(const char* path, mode_t mode) {
  const auto result = static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
  if (result == 0) {
    record(AT_FDCWD, path, [](Log& log, const std::string& inside) {
      log.events.push_back({.kind = DiskEvent::kMakeFolder, .path = inside});
    });
  }
  return result;
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  const auto result = static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
  if (result == 0) record_rename(from_folder, from, to_folder, to);
  return result;
}

int unlinkat(int folder, const char* path, int flags) {
  const auto result = static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
  if (result == 0 && (flags & AT_REMOVEDIR) == 0) record_unlink(folder, path);
  return result;
}

int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }

int remove(const char* path) {
  const int result = unlinkat(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : result;
}
}
#pragma GCC visibility pop

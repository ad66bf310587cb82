// A profile as a file in Chrome's trace event format: complete events ("X"), and metadata ("M") that names processes
// and threads. The host is process 0, whose threads keep the system's ids; GPU i is process i + 1, whose threads are
// streams. Google, "Trace Event Format".
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/core/profile/profile_session.h>
#include <adjoint/core/profile/profiler.h>

#include <nlohmann/json.hpp>

#include <iterator>
#include <map>
#include <mutex>
#include <utility>

namespace adjoint {
namespace {

using detail::ProfiledKind;
using detail::ProfiledRow;

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

// With quotes; invalid UTF-8 is replaced.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class TraceFile {
 public:
  explicit TraceFile(const std::filesystem::path& path) : file_("write_trace", path) {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  }

  void name_process(int process, const std::string& name) { name_it("process_name", process, 0, name); }
  void name_thread(int process, std::uint64_t thread, const std::string& name) {
    name_it("thread_name", process, thread, name);
  }
  // `name` and `rest` are JSON; times are nanoseconds, and microseconds in the file.
  void complete(const std::string& name, const std::string& rest, int process, std::uint64_t thread,
                std::int64_t start_ns, std::int64_t duration_ns) {
    begin();
    fmt::format_to(std::back_inserter(text_), R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},{}}})",
                   process, thread, 1e-3 * static_cast<double>(start_ns), 1e-3 * static_cast<double>(duration_ns), name,
                   rest);
  }
  void commit() {
    text_ += "\n]}\n";
    file_.write(text_);
    file_.commit();
  }

 private:
  void begin() {
    if (text_.size() > kFlushBytes) {
      file_.write(text_);
      text_.clear();
    }
    text_ += std::exchange(first_, false) ? "\n" : ",\n";
  }
  void name_it(const char* what, int process, std::uint64_t thread, const std::string& name) {
    begin();
    fmt::format_to(std::back_inserter(text_), R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}})",
                   process, thread, what, quoted(name));
  }

  AtomicFile file_;
  std::string text_;
  bool first_ = true;
};

// A row's name, and its category and arguments.
std::pair<std::string, std::string> described(const ProfiledRow& row, const detail::ProfiledSums& sums) {
  constexpr const char* kCategories[] = {"operator", "scope", "module"};
  std::string rest = fmt::format("\"cat\":\"{}\",\"args\":{{", kCategories[static_cast<std::size_t>(row.kind)]);
  const auto add = [&](const char* name, const std::string& value) {
    rest += fmt::format("{}\"{}\":{}", rest.back() == '{' ? "" : ",", name, value);
  };
  if (!row.module.empty() && row.kind != ProfiledKind::kModule) add("module", quoted(row.module));
  if (!row.shapes.empty()) add("operands", quoted(row.shapes));
  if (row.kind == ProfiledKind::kOperator) add("device", quoted(to_string(row.device)));
  const auto calls = static_cast<double>(sums.calls);
  if (sums.bytes > 0.0) add("bytes", fmt::format("{:.0f}", sums.bytes / calls));
  if (sums.flop > 0.0) add("flop", fmt::format("{:.0f}", sums.flop / calls));
  return {quoted(row.label()), rest + '}'};
}

}  // namespace

void Profiler::write_trace(const std::filesystem::path& path) {
  const OpScope scope("write_trace");
  stop();
  const detail::ProfileResult& result = *session_->result;
  const std::lock_guard lock(session_->mutex);  // a running call may still add a row
  TraceFile file(path);
  file.name_process(0, "host");
  for (const std::int64_t thread : result.threads) {
    file.name_thread(0, static_cast<std::uint64_t>(thread), fmt::format("thread {}", thread));
  }
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::size_t i = 0; i < result.sums.size(); ++i) {
    rows.push_back(described(session_->rows[i], result.sums[i]));
  }
  for (const detail::TracedCall& call : result.calls) {
    const auto& [name, rest] = rows[call.row];
    file.complete(name, rest, 0, static_cast<std::uint64_t>(result.threads[call.thread]),
                  call.start_ns - session_->start_ns, call.duration_ns);
  }

  std::map<std::pair<int, std::uint64_t>, std::uint64_t> streams;  // in the order of their first spans
  for (const DeviceSpan& span : result.device.spans) {
    const int process = span.device.index + 1;
    const auto [stream, is_new] = streams.try_emplace({process, span.stream}, streams.size());
    if (is_new) {
      file.name_process(process, to_string(span.device));
      file.name_thread(process, stream->second, fmt::format("stream {}", stream->second));
    }
    const bool known = span.row < rows.size();
    const std::string call = known ? session_->rows[span.row].label() : std::string("none");
    const std::string rest = span.name.empty() && known
                                 ? rows[span.row].second
                                 : fmt::format(R"("cat":"kernel","args":{{"operator":{}}})", quoted(call));
    file.complete(quoted(span.name.empty() ? call : span.name), rest, process, stream->second,
                  span.start_ns - session_->start_ns, span.end_ns - span.start_ns);
  }
  file.commit();
}

}  // namespace adjoint

#include <adjoint/nn/checkpoint.h>

#include <adjoint/core/autograd/op_scope.h>
#include <adjoint/core/autograd/tape.h>
#include <adjoint/core/base/check.h>
#include <adjoint/core/base/file.h>
#include <adjoint/nn/background_writer.h>
#include <adjoint/nn/checkpoint_files.h>
#include <adjoint/nn/safetensors_file.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <new>

namespace adjoint::nn {

Checkpoint::Checkpoint(std::filesystem::path folder, const CheckpointOptions& options)
    : folder_(std::move(folder)), options_(options), writer_(new BackgroundWriter) {
  ADJOINT_CHECK(!folder_.empty(), "Checkpoint: the folder must have a name; got ''");
  ADJOINT_CHECK(options.keep_last >= 1, "Checkpoint: keep_last must be at least 1; got {}", options.keep_last);
  ADJOINT_CHECK(options.keep_best >= 0, "Checkpoint: keep_best must not be negative; got {}", options.keep_best);
}

Checkpoint::~Checkpoint() {
  try {
    wait();
  } catch (const std::exception& error) {
    try {
      warn(error.what());
    } catch (...) {  // NOLINT(bugprone-empty-catch): nobody is left to inform
    }
  }
}

void Checkpoint::warn(const std::string& message) const {
  if (options_.warn) {
    options_.warn(message);
  } else {
    fmt::print(stderr, "{}\n", message);
  }
}

void Checkpoint::add_member(Member member) {
  const std::string& name = member.name;
  ADJOINT_CHECK(!name.empty() && name.find('.') == std::string::npos && !name.starts_with("__"),
                "Checkpoint::add: a name must not be empty, hold a dot or begin with '__'; got '{}'", name);
  const bool taken = std::any_of(members_.begin(), members_.end(), [&](const Member& m) { return m.name == name; });
  ADJOINT_CHECK(!taken, "Checkpoint::add: names must be distinct; got '{}' twice", name);
  members_.push_back(std::move(member));
}

void Checkpoint::add_random_state(const std::string& name) {
  add_member({.name = name,
              .state = [] { return detail::state_of(default_generator()); },
              .load = [](const NamedTensors& state) { detail::load_state(state, default_generator()); }});
}

NamedTensors Checkpoint::state() const {
  NamedTensors all;
  for (const Member& member : members_) {
    for (auto& [name, tensor] : member.state()) {
      ADJOINT_CHECK(tensor.defined(), "Checkpoint::save: every tensor must be defined; got Tensor{{}} as '{}' of '{}'",
                    name, member.name);
      all.emplace_back(name.empty() ? member.name : member.name + "." + name, std::move(tensor));
    }
  }
  return all;
}

void Checkpoint::save(std::int64_t step, const SaveOptions& options) {
  constexpr const char* kOp = "Checkpoint::save";
  ADJOINT_CHECK(step >= 0, "{}: the step must not be negative; got {}", kOp, step);
  wait();
  const PauseTape pause;
  const NamedTensors all = state();
  const auto write = [folder = folder_,
                      keep = checkpoint_files::Keep{options_.keep_last, options_.keep_best, options_.maximize}, step,
                      metric = options.metric](const NamedTensors& tensors) {
    create_folders(kOp, folder);
    AtomicFile::remove_leftovers(folder);
    CheckpointFile file{.path = folder / checkpoint_files::name_of(step), .step = step, .metric = metric};
    const std::vector<CheckpointFile> before = checkpoint_files::list(folder).files;
    file.sequence = before.empty() ? 1 : before.front().sequence + 1;
    safetensors::write_file(kOp, file.path, tensors, checkpoint_files::metadata_of(file), true);
    checkpoint_files::remove_others(kOp, folder, keep);
  };
  if (options_.background) {
    writer_->start(kOp, all, write);
  } else {
    write(all);
  }
}

void Checkpoint::wait() { writer_->wait(); }

std::int64_t Checkpoint::load(const std::filesystem::path& path) {
  constexpr const char* kOp = "Checkpoint::load";
  wait();
  const PauseTape pause;
  safetensors::check_checksum(kOp, path);
  Safetensors file;
  {
    const OpScope scope(kOp);
    file = load_safetensors(path);
  }
  const CheckpointFile about = checkpoint_files::parse(kOp, path, file.metadata);

  std::vector<NamedTensors> parts(members_.size());
  std::vector<std::string> unexpected;
  for (auto& [name, tensor] : file.tensors) {
    if (name == safetensors::kChecksumName) continue;
    const std::string owner = name.substr(0, name.find('.'));
    const auto member =
        std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.name == owner; });
    if (member != members_.end()) {
      const std::string inner = name.size() == owner.size() ? "" : name.substr(owner.size() + 1);
      parts[static_cast<std::size_t>(member - members_.begin())].emplace_back(inner, std::move(tensor));
    } else if (std::find(unexpected.begin(), unexpected.end(), owner) == unexpected.end()) {
      unexpected.push_back(owner);
    }
  }
  ADJOINT_CHECK(unexpected.empty(), "{}: '{}' must hold the parts that were added and no others; got {} as well", kOp,
                path.string(), fmt::join(unexpected, ", "));

  load_parts(path, parts);
  return about.step;
}

void Checkpoint::load_parts(const std::filesystem::path& path, const std::vector<NamedTensors>& parts) {
  std::vector<NamedTensors> before;
  for (const Member& member : members_) {
    before.push_back(member.state());
    for (auto& [name, tensor] : before.back()) tensor = tensor.detach().to(kCPU).clone();
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    try {
      if (members_[i].strict || !parts[i].empty()) members_[i].load(parts[i]);
    } catch (...) {
      put_back(path, before, members_[i].all_or_nothing ? i : i + 1);
      try {
        throw;
      } catch (const OutOfMemoryError&) {
        throw;
      } catch (const Error& error) {
        fail("Checkpoint::load: '{}' does not fit '{}': {}", path.string(), members_[i].name, error.what());
      }
    }
  }
}

// Restores the first `count` members, the last one first, because a schedule sets its optimiser's rates.
void Checkpoint::put_back(const std::filesystem::path& path, const std::vector<NamedTensors>& before,
                          std::size_t count) {
  std::vector<std::string> failures;
  for (std::size_t i = count; i-- > 0;) {
    try {
      members_[i].load(before[i]);
    } catch (const std::exception& error) {
      failures.push_back(fmt::format("'{}': {}", members_[i].name, error.what()));
    }
  }
  ADJOINT_CHECK(failures.empty(), "Checkpoint::load: '{}' does not fit, and the earlier state must be put back; got {}",
                path.string(), fmt::join(failures, "; "));
}

std::optional<std::int64_t> Checkpoint::resume() {
  wait();
  checkpoint_files::Listing listing = checkpoint_files::list(folder_);
  std::vector<std::string> reasons = std::move(listing.unreadable);
  for (const std::string& reason : reasons) warn("Checkpoint::resume: passed over: " + reason);
  for (const CheckpointFile& file : listing.files) {
    try {
      return load(file.path);
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      warn(fmt::format("Checkpoint::resume: passed over: {}", error.what()));
      reasons.emplace_back(error.what());
    }
  }
  ADJOINT_CHECK(reasons.empty(),
                "Checkpoint::resume: one of the files in '{}' must be whole and fit; got {}; begin anew in another "
                "folder, or remove them",
                folder_.string(), fmt::join(reasons, "; "));
  return {};
}

std::vector<CheckpointFile> Checkpoint::files() const { return checkpoint_files::list(folder_).files; }

std::optional<CheckpointFile> Checkpoint::best() const {
  std::vector<CheckpointFile> all = checkpoint_files::by_metric(files(), options_.maximize);
  if (all.empty()) return {};
  return all.front();
}

}  // namespace adjoint::nn

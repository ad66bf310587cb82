// TensorBoard's event files. Of the component Adjoint::log, which is there where protobuf is.
#pragma once

#include <adjoint/data/log.h>

#include <filesystem>
#include <memory>

namespace adjoint::data {

/// A writer of everything that a Log takes into a new file events.out.tfevents.<...> in `folder`, which is made where
/// it is missing; older files there stay, and TensorBoard shows all as one run. Throws Error, naming the path, where
/// the file cannot be written.
ADJOINT_API std::unique_ptr<LogWriter> event_writer(const std::filesystem::path& folder);

}  // namespace adjoint::data

// TensorBoard's event files. Part of the component Adjoint::log, which is built if protobuf is found.
#pragma once

#include <adjoint/data/log.h>
#include <adjoint/data/log_record.h>

#include <filesystem>
#include <memory>

namespace adjoint::data {

/// A writer of all records of a Log into a new file events.out.tfevents.<...> in `folder`, which is created if it is
/// missing. Older files there stay, and TensorBoard shows all as one run. If a series continues at an earlier step than
/// its last in them, as after resuming from a checkpoint, the file records one session start at this step: TensorBoard
/// then drops this and later steps, of every series, from the older files. Throws Error, naming the path, if the file
/// cannot be written.
ADJOINT_API std::unique_ptr<LogWriter> event_writer(const std::filesystem::path& folder);

}  // namespace adjoint::data

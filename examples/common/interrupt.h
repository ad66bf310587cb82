// Ctrl-C, and the other signals that ask a program to end.
#pragma once

namespace examples {

/// From now on SIGINT, SIGTERM and SIGHUP ask the training to save and stop. A signal two seconds or more after the
/// first ends the program immediately.
void catch_interrupts();
/// The signal that asked for the interruption; 0 if there was none.
int interrupted();

}  // namespace examples

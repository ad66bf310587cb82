#include "common/interrupt.h"

#include <csignal>
#include <ctime>
#include <initializer_list>

namespace examples {
namespace {

volatile std::sig_atomic_t first_signal = 0;
std::timespec first_time{};

// One key press can send two signals: programs such as timeout signal their child and then its whole process group.
void on_interrupt(int signal) {
  std::timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (first_signal == 0) {
    first_time = now;
    first_signal = signal;
  } else if (now.tv_sec - first_time.tv_sec > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
}

int interrupted() { return first_signal; }

}  // namespace examples

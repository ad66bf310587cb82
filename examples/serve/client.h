// The client: sends requests on several connections, measures the replies and compares them with the network's own
// call.
#pragma once

#include "network.h"

#include <cstdint>
#include <string>

namespace serve {

struct ClientOptions {
  std::string socket;
  /// Each has one connection, and one request on its way.
  std::int64_t threads = 8;
  std::int64_t requests = 10000;
};

struct Report {
  /// Requests answered per second, by all threads together.
  double per_second = 0.0;
  /// From sending a request to having its reply.
  double median_ms = 0.0, p999_ms = 0.0;
  /// Requests in a batch, on average.
  double batch = 0.0;
  /// Refusals of requests, which were sent again.
  std::int64_t refused = 0;
};

/// Throws Error if the server cannot be reached, refuses a request as malformed, fails, leaves, or sends a reply that
/// differs in any bit from the result of network.call for a batch of the reply's size.
Report run_client(const Network& network, const ClientOptions& options);

}  // namespace serve

// serve: answers requests for a network's results on a Unix socket, in batches, with one plan per thread.
#include "client.h"
#include "network.h"
#include "server.h"

#include "common/interrupt.h"
#include "common/settings.h"

#include <adjoint/core/base/parallel.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace serve {
namespace {

constexpr int kFailed = 1, kUsage = 2;

struct Options {
  NetworkOptions network;
  ServerOptions server;
  bool client = false;
  std::int64_t requests = 10000;

  void add_to(CLI::App& app, examples::Settings& settings) {
    app.add_option("--socket", server.socket, "Path of the Unix socket")->required();
    settings.add("--model", network.model,
                 "ONNX file, or model.safetensors of gan; without it, a small classifier with random weights");
    app.add_option("--shape", network.shape, "For ONNX files: extents of one input without the batch, such as 3,32,32")
        ->delimiter(',');
    settings.add("--threads", server.threads, "Worker threads; with --client, connections").range(1, 1024);
    settings.add("--batch", server.batch, "Requests in the largest batch").range(1, 1024);
    settings.add("--deadline-ms", server.deadline_ms, "Longest wait for other requests to join a batch")
        .range(0.0, 60'000.0);
    settings.add("--queue", server.queue, "Requests that wait at most; others are refused").range(1, 1 << 20);
    settings.add("--connections", server.connections, "Clients at most; others wait").range(1, 1 << 20);
    settings.add("--grace-ms", server.grace_ms, "Longest wait for clients to read their replies at the end")
        .range(0, 3'600'000);
    settings.add("--client", client, "Send requests to a server, measure it and compare its replies");
    settings.add("--requests", requests, "With --client, requests to send").range(1, 1'000'000'000);
  }
};

void start_server(const Options& options) {
  examples::catch_interrupts();
  const Network network = load_network(options.network);
  Server server(network, options.server);
  fmt::print("{}: inputs {}, batches of {}, {} threads, on {}\n", network.name, to_string(network.shape),
             fmt::join(batch_sizes(options.server.batch), ", "), options.server.threads, options.server.socket);
  std::fflush(stdout);
  const Served served = server.run([] { return examples::interrupted() != 0; });
  fmt::print("Answered {} requests in {} batches; refused {} for a full queue and {} malformed ones\n", served.requests,
             served.batches, served.refused, served.malformed);
}

void start_client(const Options& options) {
  const Network network = load_network(options.network);
  adjoint::set_num_threads(1);
  const Report report =
      run_client(network,
                 {.socket = options.server.socket, .threads = options.server.threads, .requests = options.requests});
  fmt::print("{} requests on {} connections: {:.0f} per second, median {:.3f} ms, 99.9 % {:.3f} ms\n", options.requests,
             options.server.threads, report.per_second, report.median_ms, report.p999_ms);
  fmt::print("{:.2f} requests in a batch; {} refusals, sent again\n", report.batch, report.refused);
  fmt::print("Every reply equals the network's own call, bit for bit\n");
}

int run(int argc, char** argv) {
  CLI::App app("Answers requests for a network's results on a Unix socket, in batches.", "serve");
  examples::Settings settings("serve", app);
  Options options;
  options.add_to(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // it was asked for help
    fmt::print(stderr, "serve: {}; see serve --help\n", error.what());
    return kUsage;
  }
  settings.check();
  options.client ? start_client(options) : start_server(options);
  return 0;
}

}  // namespace
}  // namespace serve

int main(int argc, char** argv) {
  try {
    return serve::run(argc, argv);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}\n", error.what());
    return serve::kFailed;
  }
}

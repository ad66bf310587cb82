// The server: its replies, its refusals, its socket, and its end.
#include <adjoint/tests/examples/example_tool.h>

#include "gan/networks.h"

#include <adjoint/adjoint.h>
#if EXAMPLES_WITH_ONNX
#include <adjoint/nn/onnx/onnx.h>
#endif

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace examples {
namespace {

using adjoint::Tensor;

constexpr std::size_t kInputs = 784, kOutputs = 10;    // of the built-in network
constexpr const char* kLong = " --deadline-ms 60000";  // longer than a test

// A client as the README describes the protocol.
class RawClient {
 public:
  explicit RawClient(const std::filesystem::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  /// Returns false once the server no longer reads.
  bool send(const std::vector<std::uint32_t>& words, bool waits = true) {
    const std::size_t bytes = words.size() * 4;
    return ::send(socket_, words.data(), bytes, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT)) ==
           static_cast<ssize_t>(bytes);
  }

  struct Reply {
    std::uint32_t status = 0, batch = 0, row = 0;
    std::vector<std::byte> bytes;
    std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  };
  Reply receive() {
    std::array<std::uint32_t, 5> header{};
    if (!read(header.data(), sizeof header) || header[0] != 0x314A4441U) throw std::runtime_error("no reply");
    Reply reply{header[1], header[2], header[3], std::vector<std::byte>(header[4])};
    if (!read(reply.bytes.data(), reply.bytes.size())) throw std::runtime_error("half a reply");
    return reply;
  }
  bool readable(int ms) {
    pollfd one{socket_, POLLIN, 0};
    return ::poll(&one, 1, ms) == 1;
  }
  /// Returns true if the server has closed the connection and sent nothing before.
  bool closed() {
    char byte = 0;
    return ::recv(socket_, &byte, 1, 0) <= 0;
  }

 private:
  bool read(void* to, std::size_t bytes) {
    return bytes == 0 || ::recv(socket_, to, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }

  int socket_;
  bool connected_ = false;
};

std::vector<std::uint32_t> request(std::size_t count = kInputs, float value = 0.0F) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  std::vector<std::uint32_t> words(2 + count, bits);
  words[0] = 0x314A4441U;
  words[1] = static_cast<std::uint32_t>(count);
  return words;
}

class ServeTool : public ExampleTool {
 protected:
  ServeTool() : ExampleTool("serve") {}
  void TearDown() override {
    if (server_ > 0) stop(SIGKILL);
    ExampleTool::TearDown();
  }

  std::filesystem::path socket() const { return folder_ / "s"; }
  std::string on_socket() const { return "--socket '" + socket().string() + "' "; }

  /// Starts a server and waits until it listens.
  void start(const std::string& arguments) {
    const std::string line = "exec '" + program_file("serve") + "' " + on_socket() + arguments + " > '" +
                             (folder_ / "server.txt").string() + "' 2>&1";
    server_ = fork();
    if (server_ == 0) {
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!RawClient(socket()).connected() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(RawClient(socket()).connected()) << server_output();
  }
  /// Returns the exit code, or the negative signal.
  int stop(int signal = SIGTERM) {
    kill(server_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    waitpid(server_, &status, 0);
    server_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string server_output() const {
    std::ifstream file(folder_ / "server.txt");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_error(const std::string& arguments, const std::string& text) {
    EXPECT_EQ(run(arguments), 1) << output_;
    EXPECT_NE(output_.find(text), std::string::npos) << output_;
    EXPECT_EQ(lines(), 1) << output_;
  }
  /// The server still answers.
  void expect_answer() {
    RawClient client(socket());
    ASSERT_TRUE(client.send(request()));
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 0U) << reply.text();
    EXPECT_EQ(reply.bytes.size(), 4 * kOutputs);
  }

  pid_t server_ = -1;
};

TEST_F(ServeTool, AnswersSeveralClientsWithTheNetworksBits) {
  start("--threads 3 --batch 4 --deadline-ms 1");
  std::thread other([&] {
    RawClient client(socket());
    for (int i = 0; i < 50; ++i) {
      client.send(request());
      EXPECT_EQ(client.receive().status, 0U);
    }
  });
  EXPECT_EQ(run("--client --threads 6 --requests 300 " + on_socket()), 0) << output_;
  other.join();
  EXPECT_NE(output_.find("300 requests on 6 connections"), std::string::npos) << output_;
  EXPECT_NE(output_.find("Every reply equals the network's own call"), std::string::npos) << output_;
  EXPECT_EQ(stop(SIGINT), 0);
  EXPECT_NE(server_output().find("Answered 350 requests"), std::string::npos) << server_output();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(ServeTool, MakesBatchesOfTheRequestsThatWait) {
  start("--threads 1 --batch 4" + std::string(kLong));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(socket()));
    ASSERT_TRUE(clients.back()->send(request()));
  }
  std::array<bool, 4> rows{};
  for (const auto& client : clients) {
    const auto reply = client->receive();
    EXPECT_EQ(reply.batch, 4U);
    rows.at(reply.row) = true;
  }
  EXPECT_EQ(rows, (std::array{true, true, true, true}));
}

TEST_F(ServeTool, ComputesWhatWaitsAtTheDeadline) {
  start("--threads 1 --batch 4 --deadline-ms 20");
  RawClient client(socket());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(client.send(request()));
  EXPECT_EQ(client.receive().batch, 1U);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
}

TEST_F(ServeTool, RefusesBrokenRequestsAndCloses) {
  start("--threads 1 --batch 1");
  const auto expect_refusal = [&](const std::vector<std::uint32_t>& words, const std::string& text) {
    RawClient client(socket());
    ASSERT_TRUE(client.send(words));
    const auto reply = client.receive();
    EXPECT_EQ(reply.status, 1U);
    EXPECT_EQ(reply.text(), text);
    EXPECT_TRUE(client.closed());
  };
  expect_refusal({0x20544547U, 0U, 0U}, "a request must begin with ADJ1; got 0x20544547");
  expect_refusal(request(kInputs - 1), "a request must have 784 elements; got 783");
  expect_refusal({0x314A4441U, 0xFFFFFFFFU}, "a request must have 784 elements; got 4294967295");
  for (const std::size_t words : {std::size_t{1}, std::size_t{2}, kInputs}) {  // and no more
    std::vector<std::uint32_t> part = request();
    part.resize(words);
    EXPECT_TRUE(RawClient(socket()).send(part));
  }
  expect_answer();
  EXPECT_EQ(stop(), 0);
  EXPECT_NE(server_output().find("Answered 1 requests in 1 batches; refused 0 for a full queue and 3 malformed"),
            std::string::npos)
      << server_output();
}

TEST_F(ServeTool, AnswersAtItsEndWhatItAcceptedAndRefusesMoreThanTheQueueHolds) {
  start("--threads 2 --batch 8 --queue 3" + std::string(kLong));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(socket()));
    ASSERT_TRUE(clients.back()->send(request()));
  }
  RawClient half(socket());
  ASSERT_TRUE(half.send({0x314A4441U}));
  {
    // The server has read everything that was sent before this client came when it answers a later message.
    RawClient last(socket());
    ASSERT_TRUE(last.send({0U, 0U}));
    EXPECT_EQ(last.receive().status, 1U);
  }
  RawClient refused(socket());
  for (int i = 0; i < 2; ++i) {  // a refusal leaves the connection open
    ASSERT_TRUE(refused.send(request()));
    const auto reply = refused.receive();
    EXPECT_EQ(reply.status, 2U);
    EXPECT_EQ(reply.text(), "3 requests wait already; send it again later");
  }
  kill(server_, SIGTERM);
  for (const auto& client : clients) {
    const auto reply = client->receive();
    EXPECT_EQ(reply.status, 0U);
    EXPECT_EQ(reply.bytes.size(), 4 * kOutputs);
    EXPECT_TRUE(client->closed());
  }
  EXPECT_TRUE(half.closed());
  EXPECT_TRUE(refused.closed());
  EXPECT_EQ(wait(), 0);
  EXPECT_NE(server_output().find("Answered 3 requests in 2 batches; refused 2 for a full queue"), std::string::npos)
      << server_output();
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(ServeTool, SurvivesClientsThatVanishOrDoNotRead) {
  start("--threads 2 --batch 2 --deadline-ms 0 --connections 3 --grace-ms 200");
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(RawClient(socket()).send(request()));
  // This client sends until neither side has room, and reads nothing.
  RawClient deaf(socket());
  int sent = 0;
  for (int idle = 0; idle < 20; ++sent) {
    idle = deaf.send(request(), false) ? 0 : idle + 1;
    if (idle > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_GT(sent, 20);
  expect_answer();
  {
    // Clients beyond --connections wait until one leaves.
    auto second = std::make_unique<RawClient>(socket()), third = std::make_unique<RawClient>(socket());
    ASSERT_TRUE(second->send(request()));
    EXPECT_EQ(second->receive().status, 0U);
    ASSERT_TRUE(third->send(request()));
    EXPECT_EQ(third->receive().status, 0U);
    RawClient fourth(socket());
    ASSERT_TRUE(fourth.send(request()));
    EXPECT_FALSE(fourth.readable(50));
    second.reset();
    EXPECT_EQ(fourth.receive().status, 0U);
  }
  EXPECT_EQ(stop(), 0);
}

TEST_F(ServeTool, ReplacesOnlyADeadSocket) {
  start("--threads 1 --batch 1");
  expect_error(on_socket() + "--threads 1", "another server listens on '" + socket().string() + "'");
  expect_answer();
  EXPECT_EQ(stop(SIGKILL), -SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(socket()));
  start("--threads 1 --batch 1");
  expect_answer();
  // Another socket at the path is not this server's to remove.
  std::filesystem::rename(socket(), folder_ / "moved");
  std::ofstream(socket()) << "a file";
  EXPECT_EQ(stop(), 0);
  expect_error(on_socket() + "--threads 1", "--socket must name a socket or nothing; got");
  std::ifstream file(socket());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "a file");
  std::filesystem::remove(socket());
  std::filesystem::create_directory(socket());
  expect_error(on_socket() + "--threads 1", "which is another kind of file");
  expect_error("--threads 1 --socket '" + (folder_ / "no" / "s").string() + "'",
               "cannot open the folder of the socket");
  expect_error("--threads 1 --socket " + std::string(120, 's'), "must be a path of 1 to 107 bytes; got 120");
}

TEST_F(ServeTool, ServesAModelOfGan) {
  const gan::Generator generator({.latent = 6, .features = 4});
  const std::string model = "--model '" + (folder_ / "model.safetensors").string() + "' ";
  gan::save_model(folder_ / "model.safetensors", generator);
  start("--threads 2 --batch 3 " + model);
  EXPECT_EQ(run("--client --threads 4 --requests 40 " + on_socket() + model), 0) << output_;
  expect_error("--client --requests 1 --threads 1 " + on_socket(), "a request must have 6 elements; got 784");
}

TEST_F(ServeTool, RefusesOptionsThatDoNotFit) {
  expect_error(on_socket() + "--batch 0", "serve: --batch must be from 1 to 1024; got 0");
  expect_error(on_socket() + "--shape 3", "--shape is for ONNX files, because other networks know theirs; got 3");
  expect_error(on_socket() + "--model x.pt", "--model must end in .onnx, or be a model.safetensors of gan; got 'x.pt'");
  expect_error("--client " + on_socket(), "cannot reach the server on");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  expect_error(on_socket(), "--connections must leave 64 of the 256 descriptors (ulimit -n); got 256");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(run("--threads 1"), 2);
  EXPECT_NE(output_.find("--socket is required; see serve --help"), std::string::npos) << output_;
}

#if EXAMPLES_WITH_ONNX

using Tensors = std::vector<Tensor>;

class ServeOnnx : public ServeTool {
 protected:
  template <class F>
  std::string written(const std::string& name, const F& f, bool any_batch = true) {
    const auto path = folder_ / name;
    adjoint::nn::SaveOnnxOptions options;
    if (any_batch) options.dynamic_axes = {{.axis = 0}};
    adjoint::nn::save_onnx(path, f, {Tensor::zeros({1, 2, 3})}, options);
    return "--model '" + path.string() + "' --shape 2,3 ";
  }
};

TEST_F(ServeOnnx, ServesAFileAndItsClientFindsOtherBits) {
  const auto scaled = [](double factor) { return [=](const Tensors& x) { return Tensors{x[0] * factor}; }; };
  const std::string model = written("net.onnx", scaled(2.0));
  start("--threads 1 --batch 2 " + model);
  EXPECT_EQ(run("--client --threads 2 --requests 20 " + on_socket() + model), 0) << output_;
  expect_error("--client --threads 2 --requests 20 " + on_socket() + written("other.onnx", scaled(2.0 + 1e-6)),
               "replies must equal the results of");
}

TEST_F(ServeOnnx, AnErrorOfOneInputSparesTheOthersOfItsBatch) {
  const Tensor table = Tensor::arange(4.0);
  const std::string model = written("net.onnx", [&](const Tensors& x) {
    return Tensors{index_select(table, 0, x[0].narrow(1, 0, 1).narrow(2, 0, 1).reshape({-1}).to(adjoint::kInt64))};
  });
  start("--threads 1 --batch 2 " + model + kLong);
  RawClient good(socket()), bad(socket());
  ASSERT_TRUE(good.send(request(6, 3.0F)));
  ASSERT_TRUE(bad.send(request(6, 9.0F)));
  const auto failed = bad.receive(), done = good.receive();
  EXPECT_EQ(failed.status, 3U);
  EXPECT_NE(failed.text().find("got 9"), std::string::npos) << failed.text();
  ASSERT_EQ(done.status, 0U) << done.text();
  float value = 0.0F;
  ASSERT_EQ(done.bytes.size(), sizeof value);
  std::memcpy(&value, done.bytes.data(), sizeof value);
  EXPECT_EQ(value, 3.0F);
  EXPECT_EQ(done.batch, 1U);
}

TEST_F(ServeOnnx, RefusesNetworksThatItCannotServe) {
  const auto same = [](const Tensors& x) { return Tensors{x[0] + 1}; };
  expect_error(on_socket() + "--batch 2 " + written("fixed.onnx", same, false), "must take batches of 2:");
  const std::string path = "--model '" + (folder_ / "fixed.onnx").string() + "' ";
  expect_error(on_socket() + path, "an ONNX file needs --shape");
  expect_error(on_socket() + path + "--shape 2,0", "--shape must have positive extents");
  expect_error(on_socket() + path + "--shape 100000,100000", "at most 268435456 elements; got 100000,100000");
  const auto summed = [](const Tensors& x) { return Tensors{x[0].sum(0)}; };
  expect_error(on_socket() + "--threads 1 --batch 4 " + written("sum.onnx", summed),
               "the first axis of the results must be the batch; got (2, 3) for inputs (1, 2, 3)");
}

#endif

}  // namespace
}  // namespace examples

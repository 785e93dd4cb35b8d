// Throughput of one parameter server: pushes and pulls of large tensors per second against the speed of memory, and
// small keys per second. The server is a thread (inproc) or a process of its own (ipc, tcp). Usage: bench_ps [seconds]
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/ps/client.h"
#include "starling/dist/ps/server.h"
#include "starling/optim/optimizer_kinds.h"

namespace {

using namespace starling;
using namespace starling::dist::ps;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Calls of `body` per second, for about so long.
double rate(double seconds, const std::function<void()>& body) {
  body();
  const auto begin = Clock::now();
  int calls = 0;
  while (seconds_since(begin) < seconds) {
    body();
    ++calls;
  }
  return calls / seconds_since(begin);
}

KeyTable keys_of(std::int64_t count, std::int64_t elements) {
  std::vector<ServedTensor> tensors;
  for (std::int64_t i = 0; i < count; ++i)
    tensors.push_back({.name = fmt::format("w{}", i), .type = {DType::f32, {elements}}});
  return KeyTable(tensors, 1);
}

ServerOptions options_of(const std::string& address, const std::string& optimizer) {
  ServerOptions options{.address = address};
  if (!optimizer.empty()) options.optimizer = optim::optimizer_kinds().by_name(optimizer).make();
  return options;
}

// A server as a process of its own.
class ServerProcess {
 public:
  ServerProcess(const std::string& address, const KeyTable& keys, const std::string& optimizer) : pid_(fork()) {
    check(pid_ >= 0, "[bench] expected a process, got none");
    if (pid_ > 0) return;
    alarm(600);
    Server server(make_wire(), keys, options_of(address, optimizer));
    server.run();
    _exit(0);
  }
  ~ServerProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

 private:
  pid_t pid_;
};

double memory_speed(double seconds) {
  const std::size_t bytes = 16 << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  return static_cast<double>(bytes) * rate(seconds, [&] { std::memcpy(to.data(), from.data(), bytes); });
}

void tell(const std::string& what, double per_second, double bytes, double memory) {
  fmt::print("  {:<34} {:8.1f} /s {:7.2f} GB/s {:6.2f} of memcpy\n", what, per_second, 1e-9 * per_second * bytes,
             per_second * bytes / memory);
}

void measure_large(Client& client, const std::string& rule, double seconds, double memory) {
  const Tensor gradient = zeros(client.keys().tensors()[0].type.shape), into = zeros(gradient.shape());
  const auto bytes = static_cast<double>(client.keys().bytes(0));
  client.put(0, into);
  tell("push, " + rule, rate(seconds, [&] { client.wait(client.push(0, gradient)); }), bytes, memory);
  tell("pull", rate(seconds, [&] { client.wait(client.pull(0, into)); }), bytes, memory);
  tell("push_pull, " + rule, rate(seconds, [&] { client.wait(client.push_pull(0, gradient, into)); }), 2 * bytes,
       memory);
}

void measure_small(Client& client, double seconds) {
  const std::size_t count = client.keys().tensors().size();
  const Tensor gradient = zeros(client.keys().tensors()[0].type.shape), into = zeros(gradient.shape());
  for (std::size_t t = 0; t < count; ++t) client.put(t, into);
  const auto all = [&](const std::function<void(std::size_t)>& one) {
    return static_cast<double>(count) * rate(seconds, [&] {
             for (std::size_t t = 0; t < count; ++t) one(t);
             client.wait_all();
           });
  };
  fmt::print("  {:<34} {:8.0f} keys/s\n", "push, 64 values, sgd",
             all([&](std::size_t t) { client.push(t, gradient); }));
  fmt::print("  {:<34} {:8.0f} keys/s\n", "pull, 64 values", all([&](std::size_t t) { client.pull(t, into); }));
}

// Calls `body` with a client of one server at this kind of address.
void with_server(const std::string& kind, const KeyTable& keys, const std::string& optimizer,
                 const std::function<void(Client&)>& body) {
  std::string folder = (std::filesystem::temp_directory_path() / "starling-bench-ps-XXXXXX").string();
  check(mkdtemp(folder.data()) != nullptr, "[bench] expected a temporary folder, got none");
  const std::string address = kind == "inproc" ? "inproc://bench"
                              : kind == "ipc"  ? "ipc://" + folder + "/server"
                                               : "tcp://127.0.0.1:17017";
  if (kind == "inproc") {
    const auto wire = make_wire();
    Server server(wire, keys, options_of(address, optimizer));
    server.start();
    Client client(wire, keys, {.servers = {{.address = address}}});
    body(client);
  } else {
    const ServerProcess server(address, keys, optimizer);
    Client client(make_wire(), keys, {.servers = {{.address = address}}});
    body(client);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  // Processes are forked before this one has threads.
  const KeyTable large = keys_of(1, 4 << 20), small = keys_of(1000, 64);
  for (const std::string kind : {"ipc", "tcp", "inproc"}) {
    const double memory = memory_speed(seconds / 4);
    fmt::print("{}: one tensor of 16 MB; memcpy of it {:.2f} GB/s\n", kind, 1e-9 * memory);
    for (const std::string rule : {"", "sgd", "adagrad"})
      with_server(kind, large, rule,
                  [&](Client& client) { measure_large(client, rule.empty() ? "added" : rule, seconds, memory); });
    with_server(kind, small, "sgd", [&](Client& client) { measure_small(client, seconds); });
  }
}

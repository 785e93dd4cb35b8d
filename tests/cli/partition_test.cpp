// A host that the network no longer reaches: its packets are dropped, no connection is closed. Needs network
// namespaces, which are root's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/launched.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kNamedWithin = 10s;  // with the default heartbeat

// Becomes a command that has a network of its own: this host, a router, and beyond it the host "far".
constexpr const char* kApart = R"(#!/bin/sh
set -e
mount -t tmpfs none /run
for host in middle far; do ip netns add $host; done
wire() {
  ip link add name $1-$2 type veth peer name $2-$1
  ip link set $2-$1 netns $2
}
wire near middle
wire middle far
ip link set middle-far netns middle
ip addr add 10.77.1.1/24 dev near-middle
ip -n middle addr add 10.77.1.2/24 dev middle-near
ip -n middle addr add 10.77.2.2/24 dev middle-far
ip -n far addr add 10.77.2.1/24 dev far-middle
for link in lo near-middle; do ip link set $link up; done
for link in lo middle-near middle-far; do ip -n middle link set $link up; done
for link in lo far-middle; do ip -n far link set $link up; done
ip route add default via 10.77.1.2
ip -n far route add default via 10.77.2.2
ip netns exec middle sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
exec "$@"
)";
constexpr const char* kShell = R"(#!/bin/sh
export STARLING_HOST="$1"
shift
exec ip netns exec far /bin/sh -c "$*"
)";

class Partition : public ::testing::Test {
 protected:
  void SetUp() override {
    write("apart", kApart);
    write("shell", kShell);
    write("hosts", "localhost slots=2\nfar slots=1\n");
    if (std::system((within() + " true >/dev/null 2>&1").c_str()) != 0)
      GTEST_SKIP() << "this user may not make networks of its own (unshare, ip netns, veth)";
    if (!has_gloo()) GTEST_SKIP() << "built without Gloo";
    write_tiny_fashion(folder_.path(), 64, 40);
    write("job.yaml", fmt::format("model: {{name: mlp, hidden: [16]}}\ndata: {{folder: '{0}', batch: 64}}\n"
                                  "train: {{folder: '{0}/run', export: false, epochs: 100000}}\n"
                                  "distribute: {{threads: 1}}\nmonitor: {{tensorboard: false}}\n",
                                  folder_.path().string()));
  }
  std::string in(const std::string& name) const { return "'" + (folder_.path() / name).string() + "'"; }
  std::string within() const { return "unshare --net --mount sh " + in("apart"); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    std::filesystem::permissions(folder_.path() / name, std::filesystem::perms::owner_all);
  }
  bool trains() const { return has(file_text(folder_.path() / "run" / "log.jsonl"), "\"train\""); }

  // From here on the router drops what it is to pass on.
  static bool cut(pid_t launcher) {
    const std::string drop = "ip netns exec middle sh -c 'echo 0 > /proc/sys/net/ipv4/ip_forward'";
    return std::system(fmt::format("nsenter -t {} -n -m {}", launcher, drop).c_str()) == 0;
  }

  // The last line that begins so.
  static std::string last_line_of(const std::string& log, const std::string& beginning) {
    std::istringstream lines(log);
    std::string found;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(beginning)) found = line;
    }
    return found;
  }

  TestFolder folder_{"cli-partition"};
};

// Label: waits
TEST_F(Partition, TheRankBeyondItIsNamed) {
  Launched launched(
      folder_.path(),
      "--hosts " + in("hosts") + " --ssh " + in("shell") + " --address 10.77.1.1 " + in("job.yaml") + " --progress off",
      within());
  ASSERT_TRUE(comes_true([&] { return trains(); }, 60s)) << launched.log();
  ASSERT_TRUE(cut(launched.launcher())) << launched.log();
  const auto begun = Clock::now();
  EXPECT_TRUE(comes_true([&] { return has(launched.log(), "starling: rank 2 (pid "); }, 30s)) << launched.log();
  EXPECT_LE(Clock::now() - begun, kNamedWithin) << launched.log();
  EXPECT_EQ(launched.wait(30s), 1) << launched.log();
  const std::string last = headline(launched.log());
  EXPECT_TRUE(last.starts_with("starling: rank 2 (pid ")) << launched.log();
  EXPECT_TRUE(has(last, "has been silent for ")) << launched.log();
  for (const char* survivor : {"[0] starling: ", "[1] starling: "}) {
    const std::string told = last_line_of(launched.log(), survivor);
    EXPECT_TRUE(has(told, "[supervision] rank 2 (pid ")) << survivor << launched.log();
  }
}

}  // namespace
}  // namespace starling::testing

// A scanner of ports beside ranks that are launched: whatever it sends to whichever port of theirs, the run goes on.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <sstream>

#include "cli/launched.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::set<pid_t> family_of(pid_t parent) {
  std::set<pid_t> all{parent};
  for (const pid_t child : children_of(parent)) all.merge(family_of(child));
  return all;
}

std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> inodes;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", process), none)) {
    const std::string link = fs::read_symlink(entry.path(), none).string();
    if (link.starts_with("socket:[")) inodes.insert(link.substr(8, link.size() - 9));
  }
  return inodes;
}

// Where some process listens, over IPv4.
struct Listener {
  in_addr_t address = 0;  // in the order of the network
  int port = 0;
  std::string inode{};  // of the socket
  auto operator<=>(const Listener&) const = default;
};
std::vector<Listener> listeners() {
  std::vector<Listener> found;
  std::istringstream table(file_text("/proc/net/tcp"));
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    const std::vector<std::string> all{std::istream_iterator<std::string>(fields), {}};
    constexpr std::size_t kLocal = 1, kState = 3, kInode = 9;
    if (all.size() <= kInode || all[kState] != "0A") continue;
    const std::size_t colon = all[kLocal].find(':');
    found.push_back({static_cast<in_addr_t>(std::stoul(all[kLocal].substr(0, colon), nullptr, 16)),
                     std::stoi(all[kLocal].substr(colon + 1), nullptr, 16), all[kInode]});
  }
  return found;
}

bool is_of(pid_t launcher, const Listener& listener) {
  const std::set<pid_t> family = family_of(launcher);
  return std::any_of(family.begin(), family.end(),
                     [&](pid_t process) { return sockets_of(process).contains(listener.inode); });
}

// Connects to every port of a launch, again and again, and says something else every time; some connections stay open.
class Scanner {
 public:
  explicit Scanner(pid_t launcher) : thread_([this, launcher] { run(launcher); }) {}
  ~Scanner() {
    stop_ = true;
    thread_.join();
    for (const int socket : held_) ::close(socket);
  }
  Scanner(const Scanner&) = delete;
  Scanner& operator=(const Scanner&) = delete;
  int visits() const { return visits_; }

 private:
  // Ranks listen for each other for a few milliseconds: nothing but the table of sockets is read again and again.
  void run(pid_t launcher) {
    constexpr int kVisits = 40;    // of each
    std::map<Listener, int> left;  // visits; 0: not of this launch
    while (!stop_) {
      for (const Listener& one : listeners()) {
        const auto [entry, fresh] = left.try_emplace(one, 0);
        if (fresh) entry->second = is_of(launcher, one) ? kVisits : 0;
        if (entry->second == 0) continue;
        --entry->second;
        visit(one);
      }
      std::this_thread::sleep_for(200us);
    }
  }
  void visit(const Listener& listener) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(listener.port));
    where.sin_addr.s_addr = listener.address != 0 ? listener.address : htonl(INADDR_LOOPBACK);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
      ::close(socket);
      return;
    }
    const std::string claim = "starlgl2" + std::string(40, 'x');
    const std::string manners[] = {"", "GET / HTTP/1.1\r\n\r\n", std::string(4096, '\xff'), claim,
                                   claim + std::string(80, '\0')};
    const std::string& bytes = manners[static_cast<std::size_t>(visits_++) % std::size(manners)];
    ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (visits_ % 2 == 0 && held_.size() < 100)
      held_.push_back(socket);
    else
      ::close(socket);
  }

  std::atomic<bool> stop_{false};
  std::atomic<int> visits_{0};
  std::vector<int> held_;
  std::thread thread_;
};

// Lets a rank go slowly while it joins: the others listen for it for longer than a few milliseconds.
void hobble(const Launched& launched, int rank, const fs::path& run) {
  pid_t process = -1;
  comes_true([&] { return (process = launched.rank(rank)) > 0; }, 10s);
  for (int i = 0; i < 200 && !fs::exists(run / "log.jsonl"); ++i) {
    send(process, SIGSTOP);
    std::this_thread::sleep_for(10ms);
    send(process, SIGCONT);
    std::this_thread::sleep_for(2ms);
  }
}

// Label: full
TEST(Strangers, AtThePortsOfRanksThatAreLaunchedKeepNoRunFromItsEnd) {
  if (!has_gloo()) GTEST_SKIP() << "built without Gloo";
  const TestFolder folder("cli-strangers");
  write_tiny_fashion(folder.path(), 64, 40);
  std::ofstream(folder.path() / "job.yaml")
      << "model: {name: mlp, hidden: [16]}\ndata: {folder: '" << folder.path().string()
      << "', batch: 64}\ntrain: {epochs: 1, export: false}\ndistribute: {threads: 1}\nmonitor: {tensorboard: false}\n";
  int told = 0;
  for (int round = 0; round < 20; ++round) {
    Launched launched(folder.path(), fmt::format("-n 3 --backend gloo '{0}/job.yaml' --progress off --set "
                                                 "'train.folder={0}/run-{1}'",
                                                 folder.path().string(), round));
    int visits = 0;
    {
      Scanner scanner(launched.launcher());
      hobble(launched, 2, folder.path() / fmt::format("run-{}", round));
      EXPECT_EQ(launched.wait(60s), 0) << "round " << round << ": " << launched.log();
      visits = scanner.visits();
    }
    EXPECT_GT(visits, 0) << "round " << round;
    told += has(launched.log(), "not of this job while ranks joined") ? 1 : 0;
  }
  EXPECT_GT(told, 0) << "control: ranks have met strangers while they joined";
}

}  // namespace
}  // namespace starling::testing

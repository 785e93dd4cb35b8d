#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/mpi/session.h"
#include "starling/dist/comm/transport/mpi_comm.h"
#include "starling/dist/comm/transport/notice.h"

namespace starling::dist {
namespace {

using mpi::check_mpi;
using std::chrono::milliseconds;

constexpr milliseconds kGrace{300};  // for messages in flight
constexpr std::chrono::microseconds kSpin{50}, kNap{50};

class MpiTransport final : public Transport {
 public:
  MpiTransport(mpi::Session& session, const MpiOptions& options)
      : session_(session),
        label_(options.label),
        longest_(options.longest),
        left_(static_cast<std::size_t>(session.size())) {
    const CommTime until = CommClock::now() + options.join;
    for (MPI_Comm& world : data_) world = session_.new_world(until, options.stop);
    control_ = session_.new_world(until, options.stop);
    std::scoped_lock lock(session_.mutex());
    listen();
  }

  ~MpiTransport() override {
    std::scoped_lock lock(session_.mutex());
    tell_all({});
    drop();
    if (hearing_ == MPI_REQUEST_NULL) return;
    MPI_Cancel(&hearing_);
    MPI_Wait(&hearing_, MPI_STATUS_IGNORE);  // cancelled or received
  }

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return session_.rank(); }
  int size() const override { return session_.size(); }

  Transfer send(int to, std::uint32_t channel, const void* data, std::size_t bytes) override {
    return start(to, channel, bytes, true, [&](std::size_t at, int count, int tag, MPI_Comm world, MPI_Request* made) {
      return MPI_Isend(static_cast<const char*>(data) + at, count, MPI_BYTE, to, tag, world, made);
    });
  }

  Transfer recv(int from, std::uint32_t channel, void* data, std::size_t bytes) override {
    return start(from, channel, bytes, false,
                 [&](std::size_t at, int count, int tag, MPI_Comm world, MPI_Request* made) {
                   return MPI_Irecv(static_cast<char*>(data) + at, count, MPI_BYTE, from, tag, world, made);
                 });
  }

  bool test(Transfer number) override {
    std::scoped_lock lock(session_.mutex());
    throw_if_broken();
    const auto index = static_cast<std::size_t>(number);
    if (index >= transfers_.size() || !transfers_[index].used)
      fail("[mpi] expected a transfer under way, got {}", number);
    One& one = transfers_[index];
    if (!ended(one)) {
      hear();
      const CommTime left = left_[static_cast<std::size_t>(one.peer)];
      if (left == CommTime{} || CommClock::now() < left + kGrace) return false;
      fail("[mpi] rank {} has left the group '{}'", one.peer, label_);
    }
    one.used = false;
    free_.push_back(index);
    return true;
  }

  // Polls, since MPI cannot be slept on: first without pause, then with naps; yielding instead would lose the core on a
  // busy machine.
  void wait(CommTime until) override {
    const CommTime begin = CommClock::now();
    while (!woken_.exchange(false) && !moved()) {
      const CommTime now = CommClock::now();
      if (now >= until) return;
      if (now - begin > kSpin) std::this_thread::sleep_for(std::min<CommClock::duration>(kNap, until - now));
    }
  }

  void wake() override { woken_ = true; }

  void abort(std::string_view reason) override {
    std::scoped_lock lock(session_.mutex());
    const Notice notice(Notice::Kind::gives_up, reason);
    tell_all(notice);
    if (failure_.empty()) stop(std::string(notice.reason()));
  }

 private:
  struct One {
    std::vector<MPI_Request> parts;
    std::size_t bytes = 0;
    std::size_t done = 0;  // parts completed
    int peer = 0;
    bool sends = false;
    bool used = false;
    bool mismatched = false;  // the two sides differ in length: never ends
  };

  template <class Start>
  Transfer start(int peer, std::uint32_t channel, std::size_t bytes, bool sends, Start start_part) {
    std::scoped_lock lock(session_.mutex());
    throw_if_broken();
    if (peer < 0 || peer >= size() || peer == rank()) fail("[mpi] expected another rank of {}, got {}", size(), peer);
    const auto tag = static_cast<int>(channel & 0x7fffffffu);
    if (tag > session_.largest_tag()) fail("[mpi] this MPI has channels up to {}, got {}", session_.largest_tag(), tag);
    if (free_.empty()) {
      free_.push_back(transfers_.size());
      transfers_.emplace_back();
    }
    One& one = transfers_[free_.back()];
    one.parts.assign(std::max<std::size_t>(1, (bytes + longest_ - 1) / longest_), MPI_REQUEST_NULL);
    one.bytes = bytes;
    one.done = 0;
    one.peer = peer;
    one.sends = sends;
    one.used = true;
    one.mismatched = false;
    for (std::size_t part = 0; part < one.parts.size(); ++part) {
      const std::size_t at = part * longest_;
      const auto count = static_cast<int>(std::min(longest_, bytes - at));
      const int code = start_part(at, count, tag, data_[channel >> 31], &one.parts[part]);
      if (code != MPI_SUCCESS) lost(peer, code);
    }
    const std::size_t index = free_.back();
    free_.pop_back();
    return index;
  }

  bool ended(One& one) {
    for (; !one.mismatched && one.done < one.parts.size(); ++one.done) {
      int flag = 0;
      MPI_Status status;
      const int code = MPI_Test(&one.parts[one.done], &flag, &status);
      if (code != MPI_SUCCESS && !too_long(code)) lost(one.peer, code);
      if (code == MPI_SUCCESS && flag == 0) return false;
      if (code != MPI_SUCCESS || (!one.sends && length_of(status) != part_bytes(one))) mismatch(one);
    }
    return !one.mismatched;
  }

  std::size_t part_bytes(const One& one) const { return std::min(longest_, one.bytes - one.done * longest_); }

  static std::size_t length_of(const MPI_Status& status) {
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    return static_cast<std::size_t>(count);
  }

  static bool too_long(int code) {
    int kind = MPI_SUCCESS;
    return MPI_Error_class(code, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE;
  }

  // Delays the error, so that layers that know the calls can report more than lengths first.
  void mismatch(One& one) {
    one.mismatched = true;
    if (!mismatch_.empty()) return;
    mismatched_at_ = CommClock::now();
    mismatch_ =
        fmt::format("[mpi] rank {} sends rank {} of group '{}' a message of another length than the {} bytes expected",
                    one.peer, rank(), label_, one.bytes);
  }

  bool moved() {
    std::scoped_lock lock(session_.mutex());
    throw_if_broken();
    if (hear()) return true;
    for (const One& one : transfers_) {
      if (!one.used || one.mismatched) continue;
      int flag = 0;
      const int code = MPI_Request_get_status(one.parts[one.done], &flag, MPI_STATUS_IGNORE);
      if (code != MPI_SUCCESS || flag != 0) return true;  // test() tells success from error
    }
    return false;
  }

  void listen() {
    check_mpi(MPI_Irecv(&heard_, sizeof(heard_), MPI_BYTE, MPI_ANY_SOURCE, 0, control_, &hearing_), "listen to others");
  }

  // True if a notice arrived; throws if a rank gave up.
  bool hear() {
    int flag = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&hearing_, &flag, &status), "listen to others");
    if (flag == 0) return false;
    const int from = status.MPI_SOURCE;
    if (heard_.kind == Notice::Kind::gives_up) {
      break_off(std::string(heard_.reason()));
    }
    left_[static_cast<std::size_t>(from)] = CommClock::now();
    listen();
    return true;
  }

  void tell_all(const Notice& notice) {
    if (told_) return;
    told_ = true;
    auto* words = new Notice(notice);  // leaked: MPI may read it until the process ends
    for (int to = 0; to < size(); ++to) {
      MPI_Request request = MPI_REQUEST_NULL;
      if (to == rank() || MPI_Isend(words, sizeof(Notice), MPI_BYTE, to, 0, control_, &request) != MPI_SUCCESS)
        continue;
      MPI_Request_free(&request);
    }
  }

  void throw_if_broken() {
    if (failure_.empty() && !mismatch_.empty() && CommClock::now() >= mismatched_at_ + kGrace) stop(mismatch_);
    if (!failure_.empty()) fail("{}", failure_);
  }

  [[noreturn]] void lost(int peer, int code) {
    break_off(fmt::format("[mpi] rank {} of group '{}' is lost: {}", peer, label_, mpi::words_of(code)));
  }

  [[noreturn]] void break_off(const std::string& why) {
    stop(why);
    throw_if_broken();
    std::abort();
  }

  void stop(const std::string& why) {
    failure_ = why;
    drop();
  }

  // Releases callers' buffers: unmatched receives are cancelled, matched transfers get time to complete.
  void drop() {
    for (One& one : transfers_) {
      for (std::size_t part = one.done; one.used && !one.sends && part < one.parts.size(); ++part) {
        if (one.parts[part] != MPI_REQUEST_NULL) MPI_Cancel(&one.parts[part]);
      }
    }
    const CommTime until = CommClock::now() + kGrace;
    const auto under_way = [](One& one) {
      int flag = 0;
      for (; one.used && one.done < one.parts.size(); ++one.done) {
        if (MPI_Test(&one.parts[one.done], &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS && flag == 0) return true;
      }
      return false;
    };
    while (std::any_of(transfers_.begin(), transfers_.end(), under_way) && CommClock::now() < until) {
      std::this_thread::sleep_for(kNap);
    }
    for (One& one : transfers_) {
      if (under_way(one) && !one.sends) session_.tear(fmt::format("a message from rank {} was cut short", one.peer));
    }
    transfers_.clear();
    free_.clear();
  }

  mpi::Session& session_;
  const std::string label_;
  const std::size_t longest_;
  std::array<MPI_Comm, 2> data_{};  // two, since channels have 32 bits and tags only 31
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Request hearing_ = MPI_REQUEST_NULL;
  Notice heard_;
  bool told_ = false;
  std::atomic<bool> woken_{false};
  std::vector<CommTime> left_;  // time of each rank's leave notice
  std::vector<One> transfers_;
  std::vector<std::size_t> free_;
  std::string mismatch_;  // empty: none so far
  CommTime mismatched_at_{};
  std::string failure_;
};

}  // namespace

bool has_mpi() { return true; }

std::string missing_mpi() { return ""; }

void when_mpi_waits_at_exit(std::function<void()> called) {
  mpi::Session::get(CommClock::now()).before_waiting(std::move(called));
}

std::shared_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  // MPI counts are int.
  check(options.longest >= 1 && options.longest <= std::numeric_limits<int>::max(),
        "[mpi] expected parts of 1 to {} bytes, got {}", std::numeric_limits<int>::max(), options.longest);
  mpi::Session& session = mpi::Session::get(CommClock::now() + options.join, options.stop);
  return std::make_shared<MpiTransport>(session, options);
}

}  // namespace starling::dist

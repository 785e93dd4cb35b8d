#include <fmt/format.h>

#include <mutex>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/transport/gloo/mesh.h"
#include "starling/dist/comm/transport/gloo/notices.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::dist {
namespace {

// Slot by channel and size, so that transfers of different sizes never match: a peer's mistake must not make Gloo write
// beyond a buffer, or abort the process. Equal sizes match in order, and so do all transfers if the ranks agree.
std::uint64_t slot_of(std::uint32_t channel, std::size_t bytes) {
  return (std::uint64_t{channel} << 32) | static_cast<std::uint32_t>(bytes ^ (bytes >> 32));
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(const CommGroup& group, wire::Mesh mesh)
      : rank_(group.rank),
        size_(group.size),
        notifier_(mesh.notifier),
        data_(std::move(mesh.data)),
        notices_(std::move(mesh.control), std::move(mesh.notifier), group.label) {}

  ~GlooTransport() override {
    std::scoped_lock lock(mutex_);
    notices_.leave();
    data_->release();
    transfers_.clear();
  }

  std::string_view name() const override { return "gloo"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool survives_loss() const override { return true; }

  Transfer send(int to, std::uint32_t channel, const void* data, std::size_t bytes) override {
    // Gloo takes buffers it only reads by non-const pointer, too.
    return start(to, channel, const_cast<void*>(data), bytes, true);
  }

  Transfer recv(int from, std::uint32_t channel, void* data, std::size_t bytes) override {
    return start(from, channel, data, bytes, false);
  }

  bool test(Transfer number) override {
    std::scoped_lock lock(mutex_);
    throw_if_broken();
    const auto index = static_cast<std::size_t>(number);
    if (index >= transfers_.size() || !transfers_[index].buffer)
      fail("[gloo] expected a transfer under way, got {}", number);
    One& one = transfers_[index];
    bool ended = false;
    try {
      ended = one.sends ? one.buffer->sent() : one.buffer->received();
    } catch (const std::exception& error) {
      give_up_on(one.peer, error.what());
    }
    if (!ended) {
      if (const auto& broken = notices_.broken()) break_off(*broken);
      return false;
    }
    one.buffer.reset();
    free_.push_back(index);
    return true;
  }

  void wait(CommTime until) override {
    {
      std::scoped_lock lock(mutex_);
      throw_if_broken();
    }
    notifier_->wait(heard_, until);
    heard_ = notifier_->rings();
  }

  void wake() override { notifier_->notify(); }

  void abort(std::string_view reason) override {
    std::scoped_lock lock(mutex_);
    const Notice notice(Notice::Kind::gives_up, reason);
    notices_.tell_all(notice);
    if (failure_.empty()) stop(std::string(notice.reason()));
  }

 private:
  struct One {
    std::unique_ptr<wire::Buffer> buffer;
    int peer = 0;
    bool sends = false;
  };

  Transfer start(int peer, std::uint32_t channel, void* data, std::size_t bytes, bool sends) {
    std::scoped_lock lock(mutex_);
    throw_if_broken();
    if (peer < 0 || peer >= size_ || peer == rank_) fail("[gloo] expected another rank of {}, got {}", size_, peer);
    if (free_.empty()) {
      free_.push_back(transfers_.size());
      transfers_.emplace_back();
    }
    const std::size_t index = free_.back();
    One& one = transfers_[index];
    one = {std::make_unique<wire::Buffer>(data_, bytes == 0 ? &nothing_ : data, bytes), peer, sends};
    try {
      const std::uint64_t slot = slot_of(channel, bytes);
      sends ? one.buffer->send(peer, slot, 0, bytes) : one.buffer->recv(peer, slot, 0, bytes);
    } catch (const std::exception& error) {
      one = {};
      give_up_on(peer, error.what());
    }
    free_.pop_back();
    return index;
  }

  void throw_if_broken() const {
    if (!failure_.empty()) fail("{}", failure_);
  }

  // A rank that left in good order fails only transfers with it; a lost one breaks the group.
  [[noreturn]] void give_up_on(int peer, std::string_view gloo_says) {
    const std::string why = notices_.explain(peer, gloo_says);
    if (notices_.left(peer) && !notices_.broken()) fail("{}", why);
    break_off(why);
  }

  [[noreturn]] void break_off(const std::string& why) {
    stop(why);
    throw_if_broken();
    std::abort();
  }

  // Stops all transfers: no caller's buffer is touched afterwards.
  void stop(const std::string& why) {
    failure_ = why;
    data_->close();
    transfers_.clear();
    free_.clear();
    notifier_->notify();
  }

  const int rank_, size_;
  std::shared_ptr<Notifier> notifier_;
  std::uint64_t heard_ = 0;
  char nothing_ = 0;

  std::mutex mutex_;  // guards all below: abort() may come from any thread
  std::shared_ptr<wire::Context> data_;
  wire::Notices notices_;
  std::vector<One> transfers_;
  std::vector<std::size_t> free_;
  std::string failure_;
};

}  // namespace

}  // namespace starling::dist

namespace starling {

bool has_gloo() { return true; }

std::string missing_gloo() { return ""; }

std::shared_ptr<dist::Transport> make_gloo_transport(const std::shared_ptr<Store>& store, const CommGroup& group,
                                                     const GlooOptions& options) {
  check(store != nullptr, "[gloo] expected a store to meet in, got none");
  check(group.size >= 1 && group.rank >= 0 && group.rank < group.size, "[gloo] expected a rank below {}, got {}",
        group.size, group.rank);
  return std::make_shared<dist::GlooTransport>(group, dist::wire::meet(*store, group, options));
}

}  // namespace starling

#include "starling/dist/comm/transport/gloo/notices.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist::wire {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kSlot = 1;
constexpr milliseconds kPatience{500};  // for notices in flight

}  // namespace

Notices::Notices(std::shared_ptr<Context> control, std::shared_ptr<Notifier> notifier, std::string group)
    : control_(std::move(control)),
      notifier_(std::move(notifier)),
      group_(std::move(group)),
      peers_(static_cast<std::size_t>(control_->size)) {
  for (int rank = 0; rank < control_->size; ++rank) {
    if (rank == control_->rank) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.recv = std::make_unique<Buffer>(control_, &peer.in, sizeof(Notice));
    try {
      peer.recv->recv(rank, kSlot, 0, sizeof(Notice));
    } catch (const std::exception&) {  // peer already lost: broken() finds the connection closed
    }
  }
}

Notices::~Notices() { control_->release(); }

void Notices::tell_all(const Notice& notice) {
  if (told_) return;
  told_ = true;
  out_ = notice;
  for (int rank = 0; rank < control_->size; ++rank) {
    if (rank == control_->rank) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.send = std::make_unique<Buffer>(control_, &out_, sizeof(Notice));
    try {
      peer.send->send(rank, kSlot, 0, sizeof(Notice));
    } catch (const std::exception&) {  // peer is gone
      peer.send.reset();
    }
  }
}

const std::optional<std::string>& Notices::broken() {
  const std::uint64_t rings = notifier_->rings();
  if (broken_ || rings == looked_) return broken_;
  looked_ = rings;
  for (int rank = 0; rank < control_->size && !broken_; ++rank) {
    if (rank != control_->rank) look_at(rank);
  }
  return broken_;
}

void Notices::look_at(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.heard) return;
  const bool closed = control_->pair(rank).closed();  // read first: a last notice arrives before the connection closes
  bool received = false;
  std::string why = "the connection is closed";
  try {
    received = peer.recv->received();
  } catch (const std::exception& error) {
    why = error.what();
  }
  peer.heard = received || closed;
  if (received && peer.in.kind == Notice::Kind::leaves) {
    peer.left = true;
  } else if (received) {
    broken_ = peer.in.reason();
  } else if (closed) {
    broken_ = lost(rank, why);
  }
}

std::string Notices::lost(int rank, std::string_view why) const {
  if (why.starts_with('[')) why.remove_prefix(std::min(why.size(), why.find("] ") + 2));  // strip Gloo's file and line
  return fmt::format("[gloo] rank {} of group '{}' is lost: {}", rank, group_, why);
}

std::string Notices::explain(int rank, std::string_view gloo_says) {
  const CommTime until = CommClock::now() + kPatience;
  for (;;) {
    const std::uint64_t heard = notifier_->rings();
    if (broken()) return *broken_;
    if (peers_[static_cast<std::size_t>(rank)].left) {
      return fmt::format("[gloo] rank {} has left the group '{}'", rank, group_);
    }
    if (CommClock::now() >= until) return lost(rank, gloo_says);
    notifier_->wait(heard, until);
  }
}

void Notices::leave() {
  tell_all({});
  const CommTime until = CommClock::now() + kPatience;
  const auto on_its_way = [](Peer& peer) {
    try {
      return !peer.send || peer.send->sent();
    } catch (const std::exception&) {
      return true;
    }
  };
  for (;;) {
    const std::uint64_t heard = notifier_->rings();
    if (std::all_of(peers_.begin(), peers_.end(), on_its_way) || CommClock::now() >= until) return;
    notifier_->wait(heard, until);
  }
}

}  // namespace starling::dist::wire

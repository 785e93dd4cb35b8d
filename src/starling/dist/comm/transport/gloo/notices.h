#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "starling/dist/comm/transport/gloo/wire.h"
#include "starling/dist/comm/transport/notice.h"

namespace starling::dist::wire {

// Out-of-band notices between ranks: giving up, or leaving. Each rank sends at most one; a connection that closes
// without a notice means a lost rank. One thread at a time.
class Notices {
 public:
  Notices(std::shared_ptr<Context> control, std::shared_ptr<Notifier> notifier, std::string group);
  ~Notices();

  // Sends a notice to all others without waiting; only the first counts. A reason to give up breaks the group on all
  // ranks, with the same text.
  void tell_all(const Notice& notice);

  // Reason why the group is broken, if it is: a rank gave up or was lost. Cheap while nothing is notified.
  const std::optional<std::string>& broken();

  // Reason to report for a closed connection, given Gloo's error text.
  std::string explain(int peer, std::string_view gloo_says);

  // True if that rank has announced that it leaves.
  bool left(int peer) const { return peers_[static_cast<std::size_t>(peer)].left; }

  // Announces that this rank leaves, unless it gave up, and waits briefly until the notices are sent.
  void leave();

 private:
  struct Peer {
    Notice in;
    std::unique_ptr<Buffer> recv, send;
    bool heard = false;  // nothing more will arrive
    bool left = false;
  };

  void look_at(int peer);
  std::string lost(int peer, std::string_view why) const;

  std::shared_ptr<Context> control_;
  std::shared_ptr<Notifier> notifier_;
  std::string group_;
  std::vector<Peer> peers_;
  Notice out_;
  bool told_ = false;
  std::uint64_t looked_ = ~std::uint64_t{0};
  std::optional<std::string> broken_;
};

}  // namespace starling::dist::wire

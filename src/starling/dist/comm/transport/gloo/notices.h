#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "starling/dist/comm/transport/gloo/wire.h"
#include "starling/dist/comm/transport/notice.h"

namespace starling::wire {

// What ranks tell each other beside the data: that they give up, or that they leave. Each says at most one of the two,
// once; a connection that ends without a word is a lost rank. One thread at a time.
class Notices {
 public:
  Notices(std::shared_ptr<Context> control, std::shared_ptr<Bell> bell, std::string group);
  ~Notices();

  // To all others, without waiting for them; the first only. A reason to give up breaks the group there, in its words.
  void tell_all(const Notice& notice);

  // What has broken the group, once something has: a rank that gave up or was lost. Cheap while nothing rings.
  const std::optional<std::string>& broken();

  // The connection to that rank ended as Gloo says: what the group is to know about it.
  std::string explain(int peer, std::string_view gloo_says);

  // Whether that rank has said that it leaves.
  bool left(int peer) const { return peers_[static_cast<std::size_t>(peer)].left; }

  // Says that this rank leaves, unless it gave up, and makes sure that the words are on their way.
  void leave();

 private:
  struct Peer {
    Notice in;
    std::unique_ptr<Buffer> recv, send;
    bool heard = false;  // nothing more will come
    bool left = false;
  };

  void look_at(int peer);
  std::string lost(int peer, std::string_view why) const;

  std::shared_ptr<Context> control_;
  std::shared_ptr<Bell> bell_;
  std::string group_;
  std::vector<Peer> peers_;
  Notice out_;
  bool told_ = false;
  std::uint64_t looked_ = ~std::uint64_t{0};
  std::optional<std::string> broken_;
};

}  // namespace starling::wire

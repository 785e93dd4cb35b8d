#include "starling/dist/launch/store/store_server.h"

#include "starling/dist/launch/store/store_loop.h"

namespace starling::dist {
namespace {

SocketAddress address_of(const HostPort& where, const StoreServerOptions& options) {
  if (options.found) return *options.found;
  const auto found = resolve(where);
  check(found.ok(), "[rendezvous] cannot listen on {}: {}", where.text(), found.error());
  return found->front();
}

}  // namespace

StoreServer::StoreServer(StoreServerOptions options) : options_(std::move(options)) {
  const HostPort where{options_.host, options_.port};
  const SocketAddress found = address_of(where, options_);
  check(
      found.loopback() || !options_.secret.empty(),
      "[rendezvous] expected a secret (STARLING_SECRET, or the file that STARLING_SECRET_FILE names) to listen on {}, "
      "which other hosts can reach, got none",
      where.text());
  auto listener = listen_on(found);
  check(listener.ok(), "[rendezvous] cannot listen on {}: {}", where.text(), listener.error());
  options_.port = local_address(*listener).port();
  loop_ = std::make_unique<Loop>(std::move(*listener), options_);
  thread_ = std::thread([this] { loop_->run(); });
}

StoreServer::~StoreServer() {
  loop_->stop();
  thread_.join();
}

std::string StoreServer::address() const { return HostPort{options_.host, options_.port}.text(); }

std::optional<StoreServer::Note> StoreServer::note(const std::string& key) const { return loop_->note(key); }

bool StoreServer::catch_up(std::chrono::milliseconds deadline) const { return loop_->catch_up(deadline); }

std::optional<FailureDetector::Finding> StoreServer::finding() const { return loop_->finding(); }

std::vector<int> StoreServer::missing() const { return loop_->missing(); }

}  // namespace starling::dist

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/dist/ps/clock.h"
#include "starling/dist/ps/coded_push.h"
#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/wire.h"
#include "starling/optim/optimizer_kinds.h"

namespace starling::dist::ps {

struct ServerOptions {
  int index = 0;                  // number of the server: it holds the keys that the table gives it
  std::string name = "server 0";  // role and name in messages
  std::string address{};          // to listen on; see wire.h
  std::string backup{};           // address of the server that repeats all this one does; empty: none
  bool is_backup = false;         // serves workers only after a promotion
  // Addresses of all servers, for optimizers with norms of whole tensors (norm_rule.h) over tensors in pieces; empty:
  // told by meet().
  std::vector<std::string> servers{};
  optim::OptimizerMaker optimizer{};  // null: pushes are added to the weights
  ClockOptions clock{};
  PushCodec codec = PushCodec();  // that workers push by; its backup has the same
  int threads = 1;                // of its updates
  std::string secret{};           // workers must know it; empty: every client that can connect is served
  milliseconds silence{10'000};   // a backup that does not answer for so long is given up
};

// Holds the keys of one server, applies pushes to them and answers pulls. Its loop never waits for a worker: reads that
// must wait for a clock are kept and answered later.
//
// A push is acknowledged when it is kept here and, with a backup, there as well: what is acknowledged survives the loss
// of one of the two. A backup repeats all requests that change something in the order of the primary, so that both hold
// the same bits.
//
// Weights are undefined until a worker has put them: pulls wait for that, pushes are refused. Each key has an optimizer
// of its own and a program of its updates, so that keys are independent; state is told by the names that the job's
// optimizer would give it (manifest.h).
class Server {
 public:
  // Listens from then on; throws if the address is taken or an option does not fit.
  Server(std::shared_ptr<Wire> wire, const KeyTable& keys, ServerOptions options);
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& address() const;
  const std::string& name() const;

  // Addresses of all servers, for one that could not know them when it began to listen; before its loop begins. Without
  // them the loop of a server that measures norms with others is refused.
  void meet(const std::vector<std::string>& servers);

  // The loop, in this thread, until stop(), a stop of a client, or `ended` is true (asked some times a second). Throws
  // what made it fail.
  void run(const std::function<bool()>& ended = {});
  // The loop in a thread of its own; an error of it is thrown by stop().
  void start();
  void stop();  // any thread; returns when the loop has ended

  Counters counters() const;  // any thread

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling::dist::ps

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/dist/ps/clock.h"
#include "starling/dist/ps/coded_push.h"
#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/wire.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist::ps {

struct ServerInfo {
  std::string address{};
  std::string backup{};  // goes on where the first one dies; empty: none
  std::string name{};    // in messages; empty: "server <index>"
};

struct ClientOptions {
  int worker = 0;      // -1: an observer, whom no clock counts and whose pulls never wait; it cannot push
  std::string name{};  // in messages; empty: "worker <number>", "observer"
  std::vector<ServerInfo> servers{};
  std::string secret{};
  std::int64_t clock = 0;          // the first one of this worker
  milliseconds deadline{300'000};  // of a request, with all its waiting for other workers
  milliseconds join{60'000};       // for a server to answer for the first time
  milliseconds silence{10'000};    // a server that does not answer anything for so long after that is dead
  milliseconds retry{5'000};       // unanswered requests are repeated after so long
  std::function<bool()> stop{};    // polled while waiting; true: throws Error; null: never
};

struct PushOptions {
  std::int64_t clock = 0;
  double weight = 1;  // samples that the gradient is the mean of (Merge::mean)
  double lr = -1;     // learning rate of the update; negative: the server's own
  // Portions of the data that the gradient is made of. Servers (Merge::each) drop a push of which they have taken any
  // portion before, from this worker or another; empty: not told, and never dropped.
  std::vector<std::int64_t> portions{};
};

// Worker's end: requests are numbered, sent at once and answered in any order; wait() drives them. Tensors are named by
// their place in the table; each is cut into its keys here and put together again. Lower places have priority: pushes
// of a backward pass arrive last layer first, yet the first layers are served first.
//
// Errors name worker and server: "[worker 1] server 0 (tcp://…) has been silent for 10 s". A server that dies is
// replaced by its backup, where all unanswered requests are repeated; numbers make sure that none counts twice.
// Not thread-safe: one thread uses it. Tensors given to push and pull must not change until their ticket is done.
class Client {
 public:
  using Ticket = std::uint64_t;

  // Says hello to all servers; blocks until they answer. A worker that joins again continues the numbers of its
  // requests.
  Client(std::shared_ptr<Wire> wire, KeyTable keys, ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const KeyTable& keys() const;
  int worker() const;

  // Sets the weights on the servers; the first one of a job starts it. Blocks.
  void put(std::size_t tensor, const Tensor& value);

  // Gradients are dense, or row-sparse for tensors `by_rows`.
  Ticket push(std::size_t tensor, const Tensor& gradient, const PushOptions& options = {});
  // A dense gradient in the form of the job's codec (ServerOptions::codec), which keeps what it does not send.
  Ticket push(std::size_t tensor, const Tensor& gradient, const PushOptions& options, CodedPushes& codec);
  // The gradient errorsᵀ·inputs of a matrix of which every key has whole rows, by its factors.
  Ticket push_factors(std::size_t tensor, const Tensor& errors, const Tensor& inputs, const PushOptions& options);
  // Pushes, uncoded, the residual that the codec keeps of a tensor, which is then zero.
  Ticket push_kept(std::size_t tensor, const PushOptions& options, CodedPushes& codec);
  // Writes weights read at this clock into `into` (contiguous, on the CPU). Pieces may have different versions.
  Ticket pull(std::size_t tensor, const Tensor& into, std::int64_t clock = 0);
  // Push of options.clock, then a pull of the clock after it, in one message each way.
  Ticket push_pull(std::size_t tensor, const Tensor& gradient, const Tensor& into, const PushOptions& options = {});
  // Tells the first server the compression errors of this worker's pushes so far, one for each tensor, for counters,
  // and the numbers of the forms that are chosen (GradientForm; -1: none is).
  void tell_errors(const std::vector<double>& errors, const std::vector<double>& forms);
  // Tells the servers that this worker pushes nothing more for a clock; not needed for tensors that it pushed.
  void tick(std::int64_t clock);

  // A refusal by a server is thrown by the call that sees its ticket done.
  bool done(Ticket ticket);  // also takes what has arrived
  void wait(Ticket ticket);
  void wait_all();  // for all tickets so far

  // Rows of a tensor `by_rows`, in the order asked for: [n, …]. Blocks.
  Tensor pull_rows(std::size_t tensor, const Tensor& rows, std::int64_t clock = 0);

  // Tells the servers that no read waits for the worker any more. A worker calls leave() for itself; for a dead one a
  // client that knows of its death, such as the leader's, calls retire(). Its pushes stay. Blocks.
  void retire(int worker);
  void leave();
  // Makes reads of others wait for this worker again after leave(), from this clock on. Blocks.
  void join(std::int64_t clock);

  // State of all servers as whole tensors: weights by their names, optimizer state by the names that the job's own
  // optimizer would give it. Counts that differ between keys are told by the largest. Blocks.
  std::vector<NamedTensor> state();
  // Sets what is named; names that no server knows are refused. Blocks.
  void load(const std::vector<NamedTensor>& state);

  // Commands over vectors beside the weights (vectors.h), for coordinators: only numbers travel. 0: the weights. Block.
  void zero(int a, std::int64_t first = 0);  // portions before this one are refused from now on
  void copy(int a, int b);                   // a = b
  void scale(int a, double alpha);           // a = alpha · a
  void axpy(int a, double alpha, int b);     // a = a + alpha · b
  // Parts of OWL-QN, elementwise: a = pseudo-gradient of f + penalty · Σ |weights|, of the gradient b of f; a = b where
  // it is 0; a = 0 where its sign is not that of b.
  void pseudo_gradient(int a, double penalty, int b);
  void fill_zeros(int a, int b);
  void project_orthant(int a, int b);
  double sum_abs(int a);
  double dot(int a, int b);
  // Adds weight · gradient to a vector, unless this portion has been added since zero(vector), or has a number before
  // its first one: results of a portion that several workers computed count once, and late ones not at all.
  Ticket push_portion(int vector, std::int64_t portion, std::size_t tensor, const Tensor& gradient, double weight = 1);

  // Sums over servers; "…largest" are largest ones. The queue of each server as "queue_of.<server>.rounds", ".requests"
  // and ".largest". Blocks.
  Counters server_counters();
  Counters counters() const;  // of this client: requests, bytes, repeats, fail-overs, seconds waited
  void stop_servers();        // ends their loops. Blocks

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace starling::dist::ps

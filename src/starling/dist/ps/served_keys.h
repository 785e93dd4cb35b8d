#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "starling/dist/ps/coded_push.h"
#include "starling/dist/ps/gate.h"
#include "starling/dist/ps/keys.h"
#include "starling/dist/ps/norm_exchange.h"
#include "starling/dist/ps/portion_set.h"
#include "starling/dist/ps/shard.h"

namespace starling::dist::ps {

// State of a server and how requests change it, without sockets. A function of the requests in their order: primary and
// backup, given the same ones, hold the same bits.
class ServedKeys {
 public:
  ServedKeys(KeyTable table, int server, const optim::OptimizerMaker& optimizer, const ClockOptions& clock,
             PushCodec codec = PushCodec());

  // Carries out hello, put, push (also of push_pull), tick, retire, put_state and norms. A push with a number that was
  // seen before changes nothing. Failure: the request does not fit, and nothing has changed.
  Result<void> change(const Header& header, std::span<const Bytes> parts);

  // Carries out a command over the vectors of all keys (vectors.h), from the fields that message.h gives for `vectors`.
  // Returns this server's term of a sum. A command that was seen before is not carried out again.
  Result<double> command(const Header& header);

  // Checks a request that reads; failure: it can never be answered, not even later.
  Result<void> expect_read(const Header& header, std::span<const Bytes> parts) const;
  bool may_read(const Header& header) const;
  Message read(const Header& header, std::span<const Bytes> parts);  // if may_read()

  // Messages for other servers since the last call, each with the server it goes to.
  std::vector<std::pair<int, Header>> take_norms() { return std::exchange(norms_, {}); }
  bool exchanges_norms() const;

  std::uint64_t last_number(std::uint32_t worker) const;  // 0: none
  nlohmann::json manifest() const;  // list of {key, slot, name, dtype, shape}; shape is that of the piece
  Result<Message> get_state(const Header& header) const;

  // Compression errors of a worker's pushes so far, one for each tensor of the table. Failure: others.
  Result<void> hear_errors(const Header& header, std::span<const Bytes> parts);

  Counters counters() const;

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Shard> shard;
    Gate gate;
    std::vector<std::uint64_t> last;  // by worker: number of its newest push
    PortionSet portions{};            // portions that pushes were made of
    std::optional<NormExchange> norms;
  };
  const Entry* find(std::uint32_t key) const;
  Entry* find(std::uint32_t key);
  std::string label(const Entry& entry) const;
  Result<void> expect_worker(const Header& header) const;
  Result<void> push(Entry& entry, const Header& header, std::span<const Bytes> parts);
  Result<Push> read_push(const Entry& entry, const Header& header, std::span<const Bytes> parts) const;
  void count_coded(const Entry& entry, std::span<const Bytes> parts, const Bytes& values);
  bool takes_portions(Entry& entry, const Bytes& portions);
  Result<void> add_portion(Entry& entry, const Push& push, const Header& header);
  Result<void> put(Entry& entry, std::span<const Bytes> parts);
  Result<void> put_state(Entry& entry, const Header& header, std::span<const Bytes> parts);
  Result<void> retire(const Header& header);
  void make(Entry& entry, const std::vector<Step>& steps);
  void advance(Entry& entry);
  void tell(const Entry& entry, const NormExchange::Tag& tag, const NormSums& own);
  Result<void> hear(const Header& header);
  std::optional<NormExchange> exchange_of(const Key& key) const;

  KeyTable table_;
  int server_;
  ClockOptions clock_;
  PushCodec codec_;
  std::unordered_map<std::uint32_t, Entry> entries_;
  std::int64_t pushes_ = 0, repeats_ = 0, updates_ = 0, pulls_ = 0, forgotten_ = 0;
  Histogram staleness_, gap_;
  std::vector<std::pair<int, Header>> norms_;
  std::map<std::uint32_t, std::uint64_t> commands_;  // by sender: number of its newest command
  std::int64_t portions_ = 0, repeated_portions_ = 0, coded_ = 0;
  struct Coded {
    double after = 0, before = 0;  // bytes of forms, and of gradients
  };
  std::vector<Coded> coded_bytes_;                       // by tensor
  std::map<std::uint32_t, std::vector<double>> errors_;  // by worker: what it told last, by tensor
};

}  // namespace starling::dist::ps

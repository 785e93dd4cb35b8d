#include "starling/dist/launch/rank_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdlib>
#include <vector>

#include "starling/dist/launch/socket.h"

namespace starling::dist {
namespace {

constexpr int kMostRanks = 1'000'000;
constexpr int kDefaultPort = 29'400;

using Names = std::vector<std::string>;

// Environment variables by which a launcher tells a process its rank.
struct Starter {
  std::string name;
  Names signs;                          // any of these set: started by this launcher
  std::string unless;                   // … unless this one is set, which means another launcher
  std::string rank, world;              // required
  std::string local_rank, local_world;  // optional
  Names address;                        // required with more than one rank and without STARLING_ADDRESS
  Result<std::string> (*find_address)(const Variables&);  // from `address`; null: the launcher has its own rendezvous
};

Result<int> number_in(const Variables& variables, const std::string& name, int least, int most) {
  const std::string text = variables(name).value_or("");
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    return failure("expected a whole number from {} to {} in {}, got '{}'", least, most, name, text);
  return value;
}

Result<std::string> with_port(const std::string& host, const Variables& variables, int otherwise) {
  if (!variables("STARLING_PORT")) return HostPort{host, otherwise}.text();
  const auto port = number_in(variables, "STARLING_PORT", 1, 65535);
  if (!port) return port.failure();
  return HostPort{host, *port}.text();
}

Result<std::string> own_address(const Variables& variables) { return *variables("STARLING_ADDRESS"); }

// Port after MASTER_PORT, which torchrun's own agent may occupy.
Result<std::string> torchrun_address(const Variables& variables) {
  const auto port = number_in(variables, "MASTER_PORT", 1, 65534);
  if (!port) return port.failure();
  const bool taken = variables("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  return HostPort{*variables("MASTER_ADDR"), *port + (taken ? 1 : 0)}.text();
}

// First host of the step's list, as in "node[03-05,9],login" or "a,b", is rank 0's; the port is derived from job and
// step, so that two of them on one host rarely collide.
Result<std::string> slurm_address(const Variables& variables) {
  const std::string list = *variables("SLURM_STEP_NODELIST");
  std::string host = list.substr(0, list.find_first_of("[,"));
  if (const auto open = list.find('['); open == host.size() && open != std::string::npos) {
    const auto close = list.find(']', open);
    if (close == std::string::npos) return failure("expected a list of hosts in SLURM_STEP_NODELIST, got '{}'", list);
    host += list.substr(open + 1, list.find_first_of("-,]", open + 1) - open - 1);
    host += list.substr(close + 1, list.find(',', close) - close - 1);
  }
  if (host.empty()) return failure("expected a list of hosts in SLURM_STEP_NODELIST, got '{}'", list);
  const std::string nodes = variables("SLURM_STEP_NUM_NODES").value_or("");
  if (nodes == "1") host = "127.0.0.1";
  std::uint64_t seed = 0;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID"}) {
    for (const char c : variables(name).value_or("")) seed = seed * 31 + static_cast<unsigned char>(c);
  }
  return with_port(host, variables, 20'000 + static_cast<int>(seed % 10'000));
}

// Pods of an indexed job are named <job>-<index>, and reach each other through a headless service as
// <job>-<index>.<service>.
Result<std::string> kubernetes_address(const Variables& variables) {
  std::string host = *variables("HOSTNAME");
  const std::string tail = "-" + *variables("JOB_COMPLETION_INDEX");
  if (!host.ends_with(tail)) return failure("expected HOSTNAME to end with '{}', got '{}'", tail, host);
  host.replace(host.size() - tail.size(), tail.size(), "-0");
  return with_port(fmt::format("{}.{}", host, *variables("STARLING_SERVICE")), variables, kDefaultPort);
}

const std::vector<Starter>& starters() {
  static const std::vector<Starter> table = {
      {"starling",
       {"STARLING_RANK", "STARLING_WORLD"},
       "JOB_COMPLETION_INDEX",
       "STARLING_RANK",
       "STARLING_WORLD",
       "STARLING_LOCAL_RANK",
       "STARLING_LOCAL_WORLD",
       {"STARLING_ADDRESS"},
       own_address},
      {"open_mpi",
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       "",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       {},
       nullptr},
      {"mpich",
       {"PMI_RANK", "PMI_SIZE"},
       "",
       "PMI_RANK",
       "PMI_SIZE",
       "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS",
       {},
       nullptr},
      // SLURM_STEP_NUM_TASKS is set only inside a step, unlike other variables of an allocation.
      {"slurm",
       {"SLURM_STEP_NUM_TASKS"},
       "",
       "SLURM_PROCID",
       "SLURM_STEP_NUM_TASKS",
       "SLURM_LOCALID",
       "",
       {"SLURM_STEP_NODELIST"},
       slurm_address},
      {"torchrun",
       {"RANK", "WORLD_SIZE"},
       "",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       {"MASTER_ADDR", "MASTER_PORT"},
       torchrun_address},
      {"kubernetes",
       {"JOB_COMPLETION_INDEX"},
       "",
       "JOB_COMPLETION_INDEX",
       "STARLING_WORLD",
       "",
       "",
       {"STARLING_SERVICE", "HOSTNAME"},
       kubernetes_address},
  };
  return table;
}

bool any_set(const Variables& variables, const Names& names) {
  for (const auto& name : names) {
    if (variables(name)) return true;
  }
  return false;
}

Failure partial(const Starter& starter, const Names& missing, const Variables& variables) {
  Names there;
  for (const Names& names : {starter.signs, Names{starter.rank, starter.world}, starter.address}) {
    for (const auto& name : names) {
      const bool listed = std::find(there.begin(), there.end(), name) != there.end();
      if (variables(name) && !listed) there.push_back(name);
    }
  }
  return failure("[world] this process was told its rank only in part, by {}: expected {} beside {}", starter.name,
                 fmt::join(missing, ", "), fmt::join(there, ", "));
}

Names missing_of(const Names& names, const Variables& variables) {
  Names missing;
  for (const auto& name : names) {
    if (!variables(name)) missing.push_back(name);
  }
  return missing;
}

Result<void> read_locals(RankInfo& info, const Starter& starter, const Variables& variables) {
  if (!starter.local_world.empty() && variables(starter.local_world)) {
    const auto local_world = number_in(variables, starter.local_world, 1, info.world);
    if (!local_world) return local_world.failure();
    info.local_world = *local_world;
  }
  if (!starter.local_rank.empty() && variables(starter.local_rank)) {
    const bool counted = !starter.local_world.empty() && variables(starter.local_world);
    const auto local_rank = number_in(variables, starter.local_rank, 0, (counted ? info.local_world : info.world) - 1);
    if (!local_rank) return local_rank.failure();
    info.local_rank = *local_rank;
    if (!counted) info.local_world = info.local_rank + 1;
  }
  return {};
}

Result<std::string> find_address(const Starter& starter, const Variables& variables,
                                 const std::optional<std::string>& said) {
  if (said) return *said;
  if (const auto own = variables("STARLING_ADDRESS")) return *own;
  if (starter.find_address == nullptr) return std::string();
  if (const Names missing = missing_of(starter.address, variables); !missing.empty())
    return partial(starter, missing, variables);
  return starter.find_address(variables);
}

Result<RankInfo> read(const Starter& starter, const Variables& variables, const std::optional<std::string>& said) {
  if (const Names missing = missing_of({starter.rank, starter.world}, variables); !missing.empty())
    return partial(starter, missing, variables);
  const auto world = number_in(variables, starter.world, 1, kMostRanks);
  if (!world) return failure("[world] {}", world.error());
  // An indexed Kubernetes job may also be a set of unrelated runs.
  if (starter.name == "kubernetes" && *world == 1) return RankInfo{.starter = starter.name};
  const auto rank = number_in(variables, starter.rank, 0, *world - 1);
  if (!rank) return failure("[world] {} ({} is {})", rank.error(), starter.world, *world);
  RankInfo info{.rank = *rank, .world = *world, .starter = starter.name};
  if (const auto read = read_locals(info, starter, variables); !read) return failure("[world] {}", read.error());
  if (info.world == 1) return info;
  auto address = find_address(starter, variables, said);
  if (!address)
    return address.error().starts_with("[world]") ? address.failure() : failure("[world] {}", address.error());
  info.address = std::move(*address);
  return info;
}

Result<RankInfo> read_flags(const ProcessFlags& flags, const Variables& variables) {
  if (!flags.rank || !flags.world)
    return failure("[world] expected --rank and --world together, got only {}", flags.rank ? "--rank" : "--world");
  if (*flags.world < 1 || *flags.world > kMostRanks)
    return failure("[world] expected --world from 1 to {}, got {}", kMostRanks, *flags.world);
  if (*flags.rank < 0 || *flags.rank >= *flags.world)
    return failure("[world] expected --rank from 0 to {} (--world is {}), got {}", *flags.world - 1, *flags.world,
                   *flags.rank);
  RankInfo info{.rank = *flags.rank, .world = *flags.world, .starter = "flags"};
  if (info.world == 1) return info;
  info.address = flags.address.value_or(variables("STARLING_ADDRESS").value_or(""));
  if (info.address.empty())
    return failure("[world] expected --address host:port (or STARLING_ADDRESS) beside --rank and --world, got none");
  return info;
}

// srun also sets MPICH's variables (--mpi=pmi2). If both agree, Slurm is preferred, as it also tells the address.
bool told_by_srun(const Starter& starter, const Variables& variables) {
  return starter.name == "mpich" && variables("PMI_RANK") && variables("PMI_RANK") == variables("SLURM_PROCID") &&
         variables("PMI_SIZE") == variables("SLURM_STEP_NUM_TASKS");
}

// Checks that the address, from whatever source, is host:port.
Result<RankInfo> checked(Result<RankInfo> info) {
  if (!info || info->address.empty()) return info;
  if (const auto parsed = parse_host_port(info->address); !parsed)
    return failure("[world] {} (the rendezvous that {} told)", parsed.error(), info->starter);
  return info;
}

}  // namespace

Variables process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Result<RankInfo> find_rank_info(const ProcessFlags& flags, const Variables& variables) {
  if (flags.rank || flags.world) return checked(read_flags(flags, variables));
  for (const Starter& starter : starters()) {
    if (!any_set(variables, starter.signs) || told_by_srun(starter, variables)) continue;
    if (!starter.unless.empty() && variables(starter.unless) && !variables(starter.rank)) continue;
    return checked(read(starter, variables, flags.address));
  }
  return RankInfo{.starter = "alone"};
}

}  // namespace starling::dist

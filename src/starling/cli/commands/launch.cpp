#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "starling/base/file/file.h"
#include "starling/cli/commands.h"
#include "starling/cli/job_file.h"
#include "starling/dist/comm/backend.h"
#include "starling/dist/launch/launcher/supervisor.h"
#include "starling/dist/launch/store/secret.h"
#include "starling/train/job/job_layout.h"
#include "starling/train/job/job_servers.h"

namespace starling::cli {
namespace {

struct LaunchArguments {
  int ranks = 0;
  int servers = 0;
  std::string hosts;
  std::string backend;
  std::string address;
  std::string secret_file;
  std::string ssh = dist::kSsh;
  int max_restarts = 0;
  double grace = 60;
  std::vector<std::string> command;
  const CLI::App* app = nullptr;
};

// Global, for the signal handler.
volatile std::sig_atomic_t stop_signal = 0;
volatile std::sig_atomic_t stops = 0;

void on_stop(int signal) {
  stop_signal = signal;
  stops = stops + 1;
}

bool is_program(const LaunchArguments& options) {
  return !options.app->remaining().empty();  // a program was given after "--"
}

// Job file and --set overrides of a command, so that an error is reported once, here, and not by every rank.
JobFile job_file(const std::vector<std::string>& command) {
  JobFile file{.job = command[0], .set = {}};
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "--set" && i + 1 < command.size()) file.set.push_back(command[++i]);
    if (command[i].starts_with("--set=")) file.set.push_back(command[i].substr(6));
  }
  return file;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

void expect_ranks(const LaunchArguments& options) {
  if (options.hosts.empty() && options.ranks < 1)
    throw UsageError("[launch] expected the number of ranks, -n 1 or more (or --hosts), got none");
}

// `servers`: processes beside those of -n.
std::vector<dist::RankSlot> slots_of(const LaunchArguments& options, int servers) {
  if (options.hosts.empty()) {
    const int all = options.ranks + servers;
    return dist::assign_ranks(all, {{"", all}}).value();
  }
  return as_usage([&] {
    const auto hosts =
        dist::parse_hosts(read_file(std::filesystem::path(options.hosts), 1 << 20).value(), options.hosts);
    int slots = 0;
    for (const auto& host : hosts.value()) slots += host.slots;
    return dist::assign_ranks(options.ranks > 0 ? options.ranks + servers : slots, *hosts).value();
  });
}

std::string backend_help() {
  std::string text = dist::either(dist::backend_choices(dist::for_launchers));
  for (const auto& backend : dist::comm_backends().in_order()) {
    if (backend.brings_ranks())
      text += fmt::format(" (ranks over {} are started by {})", backend.title, backend.starters_text());
  }
  return text;
}

void expect_backend(const std::string& name) {
  const auto names = dist::backend_choices(dist::for_launchers);
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string starters;
  for (const auto& backend : dist::comm_backends().in_order()) {
    if (backend.name == name)
      starters = fmt::format(": its ranks are started by {}, without `starling launch`", backend.starters_text());
  }
  throw UsageError(
      fmt::format("[launch] expected a backend, one of ({}), got '{}'{}", fmt::join(names, ", "), name, starters));
}

// Ranks that do not make the job's mesh would each say so once they run.
void expect_mesh(const train::Job& job, int workers) {
  const nlohmann::json mesh = job.distribute.strategy.json().value("mesh", nlohmann::json::object());
  if (mesh.empty() || job.distribute.workers == workers) return;
  throw UsageError(fmt::format(
      "[launch] expected {0} workers for the job's mesh, {1}, got {2} (write -n {0}, or another distribute.mesh)",
      job.distribute.workers, train::state_plan(job)->mesh().describe(), workers));
}

int run_launch(const LaunchArguments& options) {
  dist::LaunchOptions launch_options{
      .argv = options.command,
      .address = options.address,
      .secret = as_usage([&] { return dist::read_secret(options.secret_file); }),
      .backend = options.backend,
      .ssh = options.ssh,
      .max_restarts = options.max_restarts,
      .stop_within = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * options.grace)),
      .stop = [] {
        return dist::LaunchOptions::Stop{stop_signal, stops};
      }};
  expect_backend(options.backend);
  expect_ranks(options);
  std::optional<train::Job> job;
  int servers = 0;
  if (is_program(options) && options.servers > 0)
    throw UsageError("[launch] expected --servers with a job, whose last ranks are servers, got a program");
  if (!is_program(options)) {
    auto& argv = launch_options.argv;
    if (argv[0] == "train") argv.erase(argv.begin());
    if (argv.empty()) throw UsageError("[launch] expected a job file, as in `starling launch -n 2 job.yaml`, got none");
    if (options.servers > 0) {
      argv.insert(argv.begin() + 1, {"--set", fmt::format("distribute.servers={}", options.servers)});
    }
    job = load_job(job_file(argv));
    servers = static_cast<int>(job->distribute.server_count());
    argv.insert(argv.begin(), {this_program(), "train"});
  }
  launch_options.slots = slots_of(options, servers);
  if (servers > 0) static_cast<void>(train::workers_among(*job, static_cast<int>(launch_options.slots.size())));
  const int workers = static_cast<int>(launch_options.slots.size()) - servers;
  if (job) expect_mesh(*job, workers);
  for (dist::RankSlot& slot : launch_options.slots) {
    if (servers == 0) break;
    slot.role = train::role_of(slot.rank, workers);
    if (train::is_spare(*job, slot.rank, workers)) launch_options.spare.push_back(slot.rank);
  }
  std::signal(SIGINT, on_stop);
  std::signal(SIGTERM, on_stop);
  return launch(launch_options).code;
}

}  // namespace
}  // namespace starling::cli

namespace starling {

void register_command_launch(cli::Commands& into) {
  auto [app, o] = into.add<cli::LaunchArguments>(
      "launch", "Runs a job as several processes and watches over them",
      {{"launch -n 4 job.yaml", "trains with 4 ranks on this host; what follows the job goes to `starling train`"},
       {"launch -n 4 --servers 2 job.yaml --set distribute.strategy=ssp --set train.folder=runs/ssp",
        "4 workers and 2 parameter servers"},
       {"launch -n 2 --max-restarts 3 job.yaml --set train.epochs=5",
        "resumes from the last checkpoint when a rank dies"},
       {"launch --hosts hosts.txt job.yaml", "ranks on the hosts of a file with lines `host slots=k`, through ssh"},
       {"launch -n 4 -- ./program --flag", "any program; it reads its rank from STARLING_RANK, STARLING_WORLD, …"}},
      cli::run_launch);
  o.app = &app;
  app.positionals_at_end();
  app.add_option("-n,--ranks", o.ranks, "Number of processes; with --hosts: at most, and by default, all slots");
  app.add_option("--servers", o.servers,
                 "Number of parameter servers, processes beside those of -n (else distribute.servers of the job)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--hosts", o.hosts, "File with lines `host slots=k`");
  app.add_option("--backend", o.backend, cli::backend_help());
  app.add_option("--address", o.address,
                 "Where ranks meet, host or host:port; by default loopback, or this host's name");
  app.add_option("--secret-file", o.secret_file,
                 "File with the job's secret (else STARLING_SECRET, else a fresh one for each launch)");
  app.add_option("--ssh", o.ssh, "Command that runs a shell on another host")->capture_default_str();
  app.add_option("--max-restarts", o.max_restarts, "How often all ranks are started again when one has failed")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--grace", o.grace, "Seconds that ranks get to save their state after Ctrl-C or SIGTERM")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("command", o.command, "Job file and options of `starling train`; or, after --, a program")->required();
}

}  // namespace starling

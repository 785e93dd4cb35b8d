#include "starling/train/report/run_report.h"

#include <fmt/format.h>

#include <cmath>

#include "starling/base/error.h"
#include "starling/base/file/file.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/monitor/plot/svg_plot.h"
#include "starling/train/report/confusion_html.h"
#include "starling/train/report/html.h"
#include "starling/train/report/time_line.h"
#include "starling/train/run/run_weights.h"
#include "starling/train/runs/times.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.5g}", value) : "–"; }

std::string card(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escape_html(value), escape_html(name));
}

std::string head(const RunReport& report) {
  const RunRecord& run = report.record;
  const std::string state(to_string(run.state));
  std::string body =
      fmt::format("<h1>{}</h1>\n<p class=\"note\"><span class=\"state {}\">{}</span>{}</p>\n", escape_html(report.name),
                  state, state, std::isfinite(run.started) ? ", began " + moment_text(run.started) : "");
  if (!run.failure.empty()) body += fmt::format("<p class=\"note\">failed: {}</p>\n", escape_html(run.failure));
  body += "<div class=\"cards\">\n";
  for (const auto& [name, value] : run.metrics) body += card(number(value), name);
  body += card(number(run.loss), "loss") + card(number(run.epochs), "epochs") + card(number(run.steps), "steps");
  body += card(number(run.samples_per_s), "samples/s");
  if (std::isfinite(run.seconds)) body += card(duration_text(run.seconds), "training time");
  body += "</div>\n";
  for (const auto& note : report.notes) body += fmt::format("<p class=\"note\">{}</p>\n", escape_html(note));
  return body;
}

// Inline SVG; without the title, which the section has.
std::string curves(const RunReport& report) {
  const auto log = read_run_log(report.record.folder);
  if (!log) return "";
  std::vector<std::string> notes;
  const auto figure = attempt([&] { return make_figure({{report.name, *log}}, {}, notes); });
  return figure ? html_section("Curves", to_svg(*figure)) : "";
}

std::string text_of(const ordered_json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Hosts of the ranks as the last beginning of the run told them.
std::vector<std::string> hosts_of(const RunReport& report) {
  std::vector<std::string> hosts;
  for (const auto& event : report.events) {
    if (event.value("event", "") != "begin" || !event.contains("hosts") || !event.at("hosts").is_array()) continue;
    hosts.clear();
    for (const auto& host : event.at("hosts")) hosts.push_back(text_of(host));
  }
  return hosts;
}

std::string ranks_table(const RunReport& report) {
  const auto hosts = hosts_of(report);
  const bool told = report.summary.is_object() && report.summary.contains("ranks");
  if (!told && hosts.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"rank", "host"}};
  if (!told) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) rows.push_back({std::to_string(rank), hosts[rank]});
    return html_table(rows);
  }
  rows[0].insert(rows[0].end(), {"samples/s", "waits for data", "waits for others", "sent", "received"});
  const auto value = [](const ordered_json& rank, const char* key) { return rank.value(key, 0.0); };
  for (const auto& rank : report.summary.at("ranks")) {
    const auto index = rank.value("rank", std::size_t{0});
    rows.push_back(
        {std::to_string(index), index < hosts.size() ? hosts[index] : "–",
         fmt::format("{:.0f}", value(rank, "samples_per_s")), fmt::format("{:.1f} %", 100 * value(rank, "data_wait")),
         fmt::format("{:.1f} %", 100 * value(rank, "comm_wait")), fmt::format("{:.2f} MB", value(rank, "sent") / 1e6),
         fmt::format("{:.2f} MB", value(rank, "received") / 1e6)});
  }
  return html_table(rows);
}

std::string where_it_ran(const RunReport& report) {
  std::vector<std::vector<std::string>> facts{{"fact", "value"}};
  facts.push_back({"folder", report.record.folder.string()});
  if (report.environment.is_object()) {
    for (const auto& [key, value] : report.environment.items()) facts.push_back({key, text_of(value)});
  }
  if (report.summary.is_object()) {
    for (const char* key : {"strategy", "weights_hash", "peak_bytes", "wait_share", "skipped"}) {
      if (report.summary.contains(key)) facts.push_back({key, text_of(report.summary.at(key))});
    }
  }
  return html_section("What ran where", ranks_table(report) + "<p></p>\n" + html_table(facts));
}

std::string settings(const RunReport& report) {
  if (!report.job.empty()) return html_section("Job", "<pre>" + escape_html(report.job) + "</pre>\n");
  std::vector<std::vector<std::string>> rows{{"setting", "value"}};
  for (const auto& [path, value] : report.record.settings) rows.push_back({path, text_of(ordered_json(value))});
  return rows.size() == 1 ? "" : html_section("Settings of the trainer", html_table(rows));
}

nlohmann::json environment_of(const fs::path& run) {
  const auto checkpoint = load_run_checkpoint(run);
  if (!checkpoint) return {};
  return checkpoint->extra.value("environment", nlohmann::json());
}

}  // namespace

RunReport read_report(const fs::path& run) {
  check(is_run_folder(run), "[report] expected the folder of a run, got {}, which has no log, summary or checkpoints",
        run.string());
  RunReport report{.record = read_run(run)};
  report.name = run_labels({run}).front();
  if (!report.record.problem.empty()) report.notes.push_back("not all could be read: " + report.record.problem);
  if (auto events = read_run_events(run)) {
    report.events = std::move(*events);
  } else {
    report.notes.push_back("no curves and no time line: " + events.error());
  }
  if (const auto text = read_file(run / "summary.json", kMostBytes))
    report.summary = ordered_json::parse(*text, nullptr, false);
  if (auto job = read_file(run / "job.yaml", kMostBytes)) report.job = std::move(*job);
  report.environment = environment_of(run);
  return report;
}

std::string to_html(const RunReport& report) {
  std::string body = head(report) + curves(report);
  if (report.examined) {
    body += confusion_section(*report.examined, report.examined_with);
    body += wrong_section(*report.examined);
  }
  body += time_line_section(report.events) + where_it_ran(report) + settings(report);
  return html_page(report.name + " – Starling", body);
}

}  // namespace starling::train

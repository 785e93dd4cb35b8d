#include "starling/train/report/confusion_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "starling/train/report/html.h"

namespace starling::train {
namespace {

constexpr std::int64_t kMostClasses = 30;  // of a matrix that can be read
constexpr std::size_t kMostPairs = 10;

std::string matrix(const Examined& examined) {
  const Confusion& counts = examined.confusion;
  std::string out = "<div class=\"wide\"><table class=\"confusion\">\n<tr><th>true \\ predicted</th>";
  for (std::int64_t c = 0; c < counts.classes(); ++c) out += "<th>" + escape_html(examined.name(c)) + "</th>";
  out += "</tr>\n";
  for (std::int64_t truth = 0; truth < counts.classes(); ++truth) {
    const auto all = static_cast<double>(std::max<std::int64_t>(1, counts.of_label(truth)));
    out += "<tr><th>" + escape_html(examined.name(truth)) + "</th>";
    for (std::int64_t c = 0; c < counts.classes(); ++c) {
      const std::int64_t count = counts.at(truth, c);
      out += fmt::format("<td{} style=\"background: rgba(var(--heat), {:.2f})\">{}</td>",
                         c == truth ? " class=\"right\"" : "", 0.6 * static_cast<double>(count) / all,
                         count == 0 ? "" : std::to_string(count));
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string most_confused(const Examined& examined) {
  struct Pair {
    std::int64_t truth, predicted, count;
  };
  std::vector<Pair> pairs;
  const Confusion& counts = examined.confusion;
  for (std::int64_t truth = 0; truth < counts.classes(); ++truth) {
    for (std::int64_t c = 0; c < counts.classes(); ++c) {
      if (c != truth && counts.at(truth, c) > 0) pairs.push_back({truth, c, counts.at(truth, c)});
    }
  }
  if (pairs.empty()) return "";
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.count > b.count; });
  pairs.resize(std::min(pairs.size(), kMostPairs));
  std::vector<std::vector<std::string>> rows{{"most confused: true class", "predicted", "samples", "of the class"}};
  for (const auto& pair : pairs) {
    const auto all = static_cast<double>(counts.of_label(pair.truth));
    rows.push_back({examined.name(pair.truth), examined.name(pair.predicted), std::to_string(pair.count),
                    fmt::format("{:.1f} %", 100 * static_cast<double>(pair.count) / all)});
  }
  return "<p></p>\n" + html_table(rows);
}

}  // namespace

std::string confusion_section(const Examined& examined, const std::string& with) {
  std::int64_t right = 0;
  const Confusion& counts = examined.confusion;
  for (std::int64_t c = 0; c < counts.classes(); ++c) right += counts.at(c, c);
  std::string body =
      fmt::format("<p class=\"note\">{} of {} samples right, by the {}. Rows are the true classes.</p>\n", right,
                  counts.total(), escape_html(with));
  if (counts.classes() <= kMostClasses) body += matrix(examined);
  return html_section("Confusion matrix", body + most_confused(examined));
}

std::string wrong_section(const Examined& examined) {
  if (examined.wrong.empty()) return "";
  std::string body =
      "<p class=\"note\">Samples of the evaluated part that it was surest of and had wrong.</p>\n<div "
      "class=\"wrong\">\n";
  for (const auto& wrong : examined.wrong) {
    const std::string truth = escape_html(examined.name(wrong.truth));
    const std::string shown = wrong.png.empty()
                                  ? "<code>" + escape_html(wrong.values) + "</code>"
                                  : fmt::format("<img alt=\"sample {}, {}\" src=\"data:image/png;base64,{}\">",
                                                wrong.index, truth, base64(wrong.png));
    body += fmt::format("<figure>{}<figcaption>{}, not {} ({:.0f} %)<br>sample {}</figcaption></figure>\n", shown,
                        truth, escape_html(examined.name(wrong.predicted)), 100 * wrong.confidence, wrong.index);
  }
  return html_section("Examples that went wrong", body + "</div>\n");
}

}  // namespace starling::train

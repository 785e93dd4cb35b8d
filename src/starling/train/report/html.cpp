#include "starling/train/report/html.h"

#include <fmt/format.h>

#include <cstdint>

namespace starling::train {
namespace {

// Figures are drawn for white paper: their greys are replaced by those of the page.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --card: #f6f8fa;
  --heat: 0, 114, 178; --good: #1a7f37; --bad: #cf222e; --wait: #9a6700; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --card: #161b22;
    --heat: 86, 180, 233; --good: #3fb950; --bad: #f85149; --wait: #d29922; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem;
  border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
p.note { color: var(--soft); margin: .3rem 0; }
.state { font-weight: 600; } .finished { color: var(--good); } .failed { color: var(--bad); }
.interrupted, .running { color: var(--wait); }
.cards { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .5rem .9rem; }
.card b { display: block; font-size: 1.15rem; } .card span { color: var(--soft); font-size: .85rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem; }
th, td { border: 1px solid var(--line); padding: .2rem .55rem; text-align: left; } th { background: var(--card); }
table.confusion td { text-align: right; min-width: 2.6rem; } table.confusion td.right { font-weight: 600; }
.wrong { display: flex; flex-wrap: wrap; gap: .8rem; }
.wrong figure { margin: 0; width: 8.2rem; background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: .5rem; font-size: .8rem; }
.wrong img { width: 100%; image-rendering: pixelated; border-radius: 3px; display: block; margin-bottom: .3rem; }
.wrong code { display: block; font-size: .7rem; overflow-wrap: anywhere; margin-bottom: .3rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .8rem; overflow-x: auto;
  font-size: .82rem; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); }
svg rect[width="100%"], svg .mark { fill: var(--paper); }
svg [stroke="#ddd"], svg [stroke="#f2f2f2"] { stroke: var(--line); }
svg [stroke="#444"], svg [stroke="#000000"] { stroke: var(--soft); }
svg [stroke="#0072B2"] { stroke: rgb(var(--heat)); }
svg .session { fill: rgb(var(--heat)); } svg .event { stroke: var(--ink); }
)";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n{}</body>\n</html>\n",
      escape_html(title), kStyle, body);
}

std::string html_section(const std::string& title, const std::string& body) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", escape_html(title), body);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    out += "<tr>";
    for (const auto& cell : rows[i]) out += fmt::format("<{0}>{1}</{0}>", i == 0 ? "th" : "td", escape_html(cell));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

}  // namespace starling::train

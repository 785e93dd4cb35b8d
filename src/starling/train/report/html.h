#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace starling::train {

// Parts of a page that needs nothing but itself: no scripts, no network. Colours follow the reader's light or dark
// mode.

std::string escape_html(std::string_view text);
std::string base64(std::string_view bytes);

// A whole page; `body` is HTML.
std::string html_page(const std::string& title, const std::string& body);
std::string html_section(const std::string& title, const std::string& body);

// A table of texts, escaped here; the first row is its head.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace starling::train

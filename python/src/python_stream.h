#pragma once

#include <ostream>
#include <streambuf>
#include <string>
#include <utility>

#include "held.h"

namespace starling::python {

// A stream whose text goes to write(text) of Python whenever it is flushed, from any thread. What write() raises is
// reported as Python reports errors of destructors: a progress line must not end a run.
class [[gnu::visibility("hidden")]] PythonStream : public std::ostream {
 public:
  explicit PythonStream(nb::object write) : std::ostream(nullptr), buffer_(std::move(write)) { rdbuf(&buffer_); }

 private:
  class [[gnu::visibility("hidden")]] Buffer : public std::streambuf {
   public:
    explicit Buffer(nb::object write) : write_(held(std::move(write))) {}

   private:
    int_type overflow(int_type c) override {
      if (c != traits_type::eof()) text_.push_back(static_cast<char>(c));
      return traits_type::not_eof(c);
    }
    std::streamsize xsputn(const char* text, std::streamsize size) override {
      text_.append(text, static_cast<std::size_t>(size));
      return size;
    }
    int sync() override {
      const std::string text = std::exchange(text_, {});
      if (text.empty() || !python_is_there()) return 0;
      const nb::gil_scoped_acquire gil;
      try {
        (*write_)(nb::str(text.data(), text.size()));
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("a progress line of starling");
      }
      return 0;
    }

    Held write_;
    std::string text_;
  };

  Buffer buffer_;
};

}  // namespace starling::python

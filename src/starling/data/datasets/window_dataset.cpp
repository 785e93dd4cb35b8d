#include "starling/data/datasets/window_dataset.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling {

WindowDataset::WindowDataset(std::shared_ptr<const std::vector<std::int32_t>> ids, std::int64_t begin, std::int64_t end,
                             std::int64_t window, std::int64_t stride)
    : ids_(std::move(ids)), begin_(begin), window_(window), stride_(stride) {
  check(window >= 1 && stride >= 1 && begin >= 0 && end <= std::ssize(*ids_) && end - begin > window,
        "[text] expected more than {} tokens in each part, a window's and the one after it, got {}", window,
        end - begin);
  size_ = (end - begin - 1 - window) / stride + 1;
}

void WindowDataset::gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= size_) fail("[text] expected windows below {}, got {}", size_, rows[i]);
    const std::int32_t* from = ids_->data() + begin_ + rows[i] * stride_;
    const auto at = static_cast<std::int64_t>(i) * window_;
    std::copy_n(from, window_, out[0].data<std::int64_t>() + at);
    std::copy_n(from + 1, window_, out[1].data<std::int64_t>() + at);
  }
}

}  // namespace starling

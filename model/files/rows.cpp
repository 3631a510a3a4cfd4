#include "model/files/rows.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace troupe::model {

batch_builder::batch_builder(const row_layout& layout, loss_kind loss, std::size_t size)
    : layout_(layout), loss_(loss), singles_(layout.singles), bags_(layout.bags), tile_(tile_rows * layout.singles) {
  made_.size = size;
  made_.tables.resize(layout.tables.size());
  made_.dense.resize(size * layout.dense);
  if (loss == loss_kind::cross_entropy)
    made_.classes.resize(size);
  else
    made_.values.resize(size);
  for (std::size_t t = 0; t < layout.tables.size(); ++t) {
    bags& to = made_.tables[t];
    to.offsets.resize(size);
    if (layout.tables[t].is_bag) {
      bags_[layout.tables[t].number] = &to;
    } else {
      to.indices.resize(size);
      std::iota(to.offsets.begin(), to.offsets.end(), std::int64_t{0});
      singles_[layout.tables[t].number] = to.indices.data();
    }
  }
}

void batch_builder::add(const row_block& from, std::size_t row) {
  const std::uint32_t* record = from.records.get() + row * layout_.width();
  float label = 0;
  std::memcpy(&label, record, sizeof(label));
  if (loss_ == loss_kind::cross_entropy)
    made_.classes[next_] = static_cast<std::int64_t>(label);
  else
    made_.values[next_] = label;
  if (layout_.dense > 0)
    std::memcpy(made_.dense.data() + next_ * layout_.dense, record + 1, layout_.dense * sizeof(float));
  std::copy_n(record + 1 + layout_.dense, singles_.size(), tile_.data() + in_tile_ * singles_.size());
  const std::uint64_t* begin = from.bags.begin.data() + row * bags_.size();
  for (std::size_t i = 0; i < bags_.size(); ++i) {
    auto& indices = bags_[i]->indices;
    bags_[i]->offsets[next_] = static_cast<std::int64_t>(indices.size());
    indices.insert(indices.end(), from.bags.rows.begin() + static_cast<std::ptrdiff_t>(begin[i]),
                   from.bags.rows.begin() + static_cast<std::ptrdiff_t>(begin[i + 1]));
  }
  ++next_;
  if (++in_tile_ == tile_rows) empty_tile();
}

batch batch_builder::finish() && {
  empty_tile();
  return std::move(made_);
}

void batch_builder::empty_tile() {
  for (std::size_t i = 0; i < singles_.size(); ++i) {
    std::int64_t* const to = singles_[i] + (next_ - in_tile_);
    for (std::size_t row = 0; row < in_tile_; ++row) to[row] = tile_[row * singles_.size() + i];
  }
  in_tile_ = 0;
}

}  // namespace troupe::model

// The data sets of images in files, kept in memory as bytes: mnist, and any in the IDX format.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "model/datasets.hpp"
#include "model/files/idx.hpp"
#include "model/hybrid.hpp"
#include "model/input_file.hpp"
#include "model/sampler.hpp"
#include "nn/samples.hpp"

namespace troupe::model {

namespace {

float number_of(std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; }

class image_set final : public dataset {
 public:
  /// `test` may be null. Requires: the labels of both are below `classes`.
  image_set(std::shared_ptr<const labeled_images> train, std::shared_ptr<const labeled_images> test,
            std::size_t classes, const job& job)
      : train_(std::move(train)),
        test_(std::move(test)),
        loss_(job.loss),
        sampler_(epochs_of(job, train_->rows), job.seed) {
    spec_.dense_features = train_->shape.count();
    spec_.image = train_->shape;
    spec_.outputs = outputs_for(loss_, classes);
    spec_.binary_targets = classes == 2;
  }

  const data_spec& spec() const override { return spec_; }

  std::string digest() const override { return test_ ? train_->digest + test_->digest : train_->digest; }

  epoch_plan epochs() const override { return sampler_.epochs(); }
  std::optional<std::uint64_t> train_rows() const override { return train_->rows; }

  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    const auto share = sampler_.of(step, rank);
    return taken(*train_, share.size(), [&share](std::size_t sample) { return share.row(sample); });
  }

  std::uint64_t test_rows() const override { return test_ ? test_->rows : 0; }

  result<batch> test_batch(std::uint64_t first, std::size_t count) const override {
    if (!test_) return dataset::test_batch(first, count);
    return taken(*test_, count, [first](std::size_t sample) { return first + sample; });
  }

 private:
  template <class RowOf>
  batch taken(const labeled_images& from, std::size_t size, RowOf row_of) const {
    batch made;
    made.size = size;
    const std::size_t width = spec_.dense_features;
    made.dense.resize(size * width);
    for (std::size_t sample = 0; sample < size; ++sample) {
      const std::size_t row = row_of(sample);
      const std::uint8_t* pixels = from.pixels.get() + row * width;
      std::transform(pixels, pixels + width, made.dense.data() + sample * width, number_of);
      append_target(made, loss_, from.labels[row]);
    }
    return made;
  }

  std::shared_ptr<const labeled_images> train_;
  std::shared_ptr<const labeled_images> test_;
  loss_kind loss_;
  sharded_sampler sampler_;
  data_spec spec_;
};

// -- opening ---------------------------------------------------------------------------------------------------------

struct split_files {
  image_files train;
  std::optional<image_files> test;
};

// The folder in which tools/setup.sh puts the files: by the XDG specification, which ignores relative paths.
result<std::string> mnist_folder(const job& job) {
  if (job.data.starts_with(mnist_prefix)) return job.data.substr(mnist_prefix.size());
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return fmt::format("{}/troupe/mnist", cache);
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0')
    return bad_input("--data mnist: HOME is not set, so the user's cache is not known; use --data mnist:DIR");
  return fmt::format("{}/.cache/troupe/mnist", home);
}

result<std::string> find_mnist(const std::string& folder, std::string_view name) {
  const std::string plain = fmt::format("{}/{}", folder, name);
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return bad_input(
      "{}: no such file, nor with .gz; get the four files of MNIST by tools/setup.sh mnist, or name their folder by "
      "--data mnist:DIR",
      printable_path(plain));
}

result<split_files> mnist_files(const job& job) {
  TROUPE_TRY(folder, mnist_folder(job));
  split_files found;
  TROUPE_SET(found.train.images, find_mnist(folder, "train-images-idx3-ubyte"));
  TROUPE_SET(found.train.labels, find_mnist(folder, "train-labels-idx1-ubyte"));
  image_files& test = found.test.emplace();
  TROUPE_SET(test.images, find_mnist(folder, "t10k-images-idx3-ubyte"));
  TROUPE_SET(test.labels, find_mnist(folder, "t10k-labels-idx1-ubyte"));
  return found;
}

// Returns the files' content, which jobs share.
result<std::shared_ptr<const labeled_images>> shared_images(const image_files& files) {
  static shared_while_held<std::array<file_identity, 2>, labeled_images> shared;
  return shared.get({identity_of(files.images), identity_of(files.labels)}, [&files] { return read_images(files); });
}

std::optional<std::string> check_classes(const labeled_images& what, const std::string& file, std::size_t classes,
                                         bool is_mnist) {
  const std::uint8_t* end = what.labels.get() + what.rows;
  const auto* wrong = std::find_if(what.labels.get(), end, [&](std::uint8_t label) { return label >= classes; });
  if (wrong == end) return std::nullopt;
  return fmt::format("{}: label {} of row {} (from 0): must be below {}, the classes{}", printable_path(file), *wrong,
                     wrong - what.labels.get(), classes, is_mnist ? " of MNIST" : "; use more --classes");
}

/// Refuses pixels that the network does not accept as ids.
std::optional<std::string> check_pixels(const labeled_images& what, const std::string& file, const job& job,
                                        const data_spec& spec) {
  const auto ids = ids_of(job, spec);
  if (!ids) return std::nullopt;
  std::array<bool, 256> is_id{};
  for (std::size_t pixel = 0; pixel < is_id.size(); ++pixel)
    is_id[pixel] = ids->has(number_of(static_cast<std::uint8_t>(pixel)));
  const std::uint8_t* end = what.pixels.get() + what.rows * what.shape.count();
  const auto* wrong = std::find_if(what.pixels.get(), end, [&](std::uint8_t pixel) { return !is_id[pixel]; });
  if (wrong == end) return std::nullopt;
  const auto place = static_cast<std::size_t>(wrong - what.pixels.get());
  const std::size_t width = what.shape[2];
  return fmt::format("{}: image {}, row {}, column {} (from 0): {} / 255: must be {}{}", printable_path(file),
                     place / what.shape.count(), place / width % what.shape[1], place % width, *wrong, ids->text(),
                     ids->scale == 255 ? "" : "; give the embedding a scale of 255");
}

std::optional<std::string> check_image_shape(const labeled_images& what, const std::string& file,
                                             const troupe::shape& wanted, const std::string& why) {
  if (what.shape == wanted) return std::nullopt;
  return fmt::format("{}: images of {}: must be {} (channels, height, width), {}", printable_path(file),
                     nn::lengths_text(what.shape), nn::lengths_text(wanted), why);
}

}  // namespace

result<std::shared_ptr<const dataset>> open_images(const job& job) {
  const bool is_mnist = data_kind_of(job.data) == data_kind::mnist;
  split_files files;
  if (is_mnist)
    TROUPE_SET(files, mnist_files(job));
  else
    files = {*image_files_of(std::string_view(job.data).substr(idx_prefix.size())), image_files_of(job.test_file)};
  const std::size_t classes = is_mnist ? mnist_classes : job.classes;

  TROUPE_TRY(train, shared_images(files.train));
  if (is_mnist) {
    const troupe::shape wanted(1, mnist_side, mnist_side);
    if (auto wrong =
            check_image_shape(*train, files.train.images, wanted, "as those of MNIST; use --data idx:IMAGES,LABELS"))
      return bad_input(std::move(*wrong));
  }
  if (auto wrong = check_classes(*train, files.train.labels, classes, is_mnist)) return bad_input(std::move(*wrong));
  if (auto wrong = check_share(job, train->rows, printable_path(files.train.images)))
    return bad_input(std::move(*wrong));

  std::shared_ptr<const labeled_images> test;
  if (files.test) {
    TROUPE_SET(test, shared_images(*files.test));
    const std::string why = fmt::format("as those of {}", printable_path(files.train.images));
    if (auto wrong = check_image_shape(*test, files.test->images, train->shape, why))
      return bad_input(std::move(*wrong));
    if (auto wrong = check_classes(*test, files.test->labels, classes, is_mnist)) return bad_input(std::move(*wrong));
  }
  auto made = std::make_shared<const image_set>(train, test, classes, job);
  if (auto wrong = check_pixels(*train, files.train.images, job, made->spec())) return bad_input(std::move(*wrong));
  if (test != nullptr)
    if (auto wrong = check_pixels(*test, files.test->images, job, made->spec())) return bad_input(std::move(*wrong));
  return made;
}

}  // namespace troupe::model

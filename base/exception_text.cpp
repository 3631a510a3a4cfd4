#include "base/exception_text.hpp"

#include <boost/system/system_error.hpp>
#include <string_view>

namespace troupe {

std::string text_of(const std::exception& thrown) {
  if (dynamic_cast<const no_memory*>(&thrown) != nullptr) return thrown.what();
  if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) return "out of memory";
  if (const auto* of_boost = dynamic_cast<const boost::system::system_error*>(&thrown)) {
    std::string_view category = of_boost->code().category().name();  // `boost.json`
    category.remove_prefix(category.rfind('.') + 1);                 // unchanged without a dot
    return std::string(category) + ": " + of_boost->code().message();
  }
  return thrown.what();
}

}  // namespace troupe

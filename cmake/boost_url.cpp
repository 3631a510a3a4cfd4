// Boost.URL's definitions: the library is used header-only.

#include <boost/url/src.hpp>

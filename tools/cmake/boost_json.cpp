// Boost.JSON's definitions, once for the whole program: the library is used header-only.

#include <boost/json/src.hpp>

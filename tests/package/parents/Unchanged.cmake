# Checks that a subproject leaves its parent's variables and properties unchanged: call remember() before
# add_subdirectory, and check_unchanged() after it. The check ignores variables that CMake itself writes: matches of
# regular expressions, and the last project.

set(watched_properties COMPILE_DEFINITIONS COMPILE_OPTIONS INCLUDE_DIRECTORIES LINK_DIRECTORIES LINK_LIBRARIES LINK_OPTIONS
                       TESTS)

macro(remember)
  get_cmake_property(_names VARIABLES)
  foreach(_name IN LISTS _names)
    set(_was_${_name} "${${_name}}")
  endforeach()
  foreach(_property IN LISTS watched_properties)
    get_directory_property(_property_${_property} ${_property})
  endforeach()
endmacro()

macro(check_unchanged)
  foreach(_name IN LISTS _names)
    if(NOT "${${_name}}" STREQUAL "${_was_${_name}}" AND NOT _name MATCHES "^(_|CMAKE_MATCH_|FIND_PACKAGE_MESSAGE)")
      message(SEND_ERROR "add_subdirectory turned ${_name} from '${_was_${_name}}' to '${${_name}}'")
    endif()
  endforeach()
  # New variables that would affect the parent's own targets.
  get_cmake_property(_now VARIABLES)
  foreach(_name IN LISTS _now)
    if(_name MATCHES "^(BUILD_|CMAKE_)" AND NOT _name IN_LIST _names AND NOT _name MATCHES "^CMAKE_(HAVE|INSTALL|MATCH|PROJECT)_")
      message(SEND_ERROR "add_subdirectory set ${_name} to '${${_name}}'")
    endif()
  endforeach()
  foreach(_property IN LISTS watched_properties)
    get_directory_property(_value ${_property})
    if(NOT "${_value}" STREQUAL "${_property_${_property}}")
      message(SEND_ERROR "add_subdirectory turned the folder's ${_property} from '${_property_${_property}}' to '${_value}'")
    endif()
  endforeach()
endmacro()

# require(<target> <property> <value>) checks a target's property.
function(require target property value)
  get_target_property(actual ${target} ${property})
  if(NOT "${actual}" STREQUAL "${value}")
    message(SEND_ERROR "${property} of ${target} must be '${value}'; got '${actual}'")
  endif()
endfunction()

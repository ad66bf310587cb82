# adjoint_component(<name> <source>...) adds the library Adjoint::<name> beside Adjoint::adjoint, for code that links
# further libraries. find_package(Adjoint COMPONENTS <name>) and pkg-config adjoint-<name> find it. The CMakeLists.txt
# of the component's folder calls the function; adjoint_module() skips folders with such a file. The folder's headers
# are the component's headers.
function(adjoint_component name)
  set(target adjoint_${name})
  add_library(${target} ${ARGN})
  add_library(Adjoint::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
  target_link_libraries(${target} PUBLIC adjoint PRIVATE $<BUILD_INTERFACE:adjoint_warnings> fmt::fmt)

  install(TARGETS ${target} EXPORT Adjoint_${name})
  install(EXPORT Adjoint_${name} NAMESPACE Adjoint:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Adjoint)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  file(GLOB headers CONFIGURE_DEPENDS *.h)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/adjoint/${folder})

  if(BUILD_SHARED_LIBS)  # only CMake's package names a static library's dependencies
    set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    string(REGEX REPLACE "[^/]+" ".." prefix_from_pkgconfig ${pkgconfig_dir})
    set(description "${PROJECT_DESCRIPTION}")
    set(file ${PROJECT_BINARY_DIR}/adjoint-${name}.pc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/adjoint-component.pc.in ${file}.in @ONLY)
    file(GENERATE OUTPUT ${file} INPUT ${file}.in)
    install(FILES ${file} DESTINATION ${pkgconfig_dir})
  endif()
endfunction()

# The target of `west build -t run`, and of Twister.
set(SUPPORTED_EMU_PLATFORMS custom)
add_custom_target(run_custom
  COMMAND spe-unicorn run -q --until "console:PROJECT EXECUTION" ${CMAKE_BINARY_DIR}/zephyr/zephyr.elf
  DEPENDS ${CMAKE_BINARY_DIR}/zephyr/zephyr.elf
  USES_TERMINAL)

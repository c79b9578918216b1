//! Prints a line for each row: what, payload, template, and instructions for one message: ordinary, prepare, online.
//!
//! The emulator takes 1 ns of its time for each instruction, and its SysTick counts at 25 MHz: a tick is 40 instructions.
//! Each measurement is repeated until it has lasted [`TICKS`] ticks, so that a row is exact to a thousandth and better.
#![no_std]
#![no_main]

use cortex_m::Peripherals;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hprintln};
use precompute::{BATCH, Meter, each_row};

/// Instructions in a tick.
const INSTRUCTIONS: u64 = 40;
/// SysTick counts down from here, and begins again.
const RELOAD: u32 = 0x00ff_ffff;

struct SysTick(SYST);

impl Meter for SysTick {
    fn measure(&mut self, run: &mut dyn FnMut()) -> u64 {
        let begin = SYST::get_current();
        run();
        let ticks = begin.wrapping_sub(SYST::get_current()) & RELOAD;
        self.0.clear_current();
        u64::from(ticks) * INSTRUCTIONS / BATCH as u64
    }
}

#[entry]
fn main() -> ! {
    let mut clock = Peripherals::take().expect("taken once").SYST;
    clock.set_clock_source(SystClkSource::Core);
    clock.set_reload(RELOAD);
    clock.clear_current();
    clock.enable_counter();
    each_row(&mut SysTick(clock), &mut |row| {
        hprintln!(
            "{},{},{},{},{},{}",
            row.what.name(),
            row.payload,
            row.template,
            row.ordinary,
            row.prepare,
            row.online
        );
    });
    hprintln!("end");
    debug::exit(debug::EXIT_SUCCESS);
    loop {
        cortex_m::asm::wfi();
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        cortex_m::asm::wfi();
    }
}

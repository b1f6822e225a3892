//! Reading a BPF ring buffer. One reader at a time: the position is in the shared memory.
//!
//! Layout (kernel documentation, bpf/ringbuf): one page with the reader's position, one with the
//! writer's, then the data, mapped twice in a row so that records never wrap.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;
const PAGE: usize = 4096;

/// A mapped ring buffer.
#[derive(Debug)]
pub struct Ring {
    consumer: NonNull<u8>,
    producer: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory is shared with the kernel anyway; every access of positions is atomic.
unsafe impl Send for Ring {}

fn map(fd: BorrowedFd<'_>, length: usize, write: bool, offset: usize) -> io::Result<NonNull<u8>> {
    let protection = if write {
        libc::PROT_READ | libc::PROT_WRITE
    } else {
        libc::PROT_READ
    };
    // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

impl Ring {
    /// Map a ring buffer of `size` bytes.
    pub fn new(fd: BorrowedFd<'_>, size: usize) -> io::Result<Ring> {
        let consumer = map(fd, PAGE, true, 0)?;
        let producer = match map(fd, PAGE + 2 * size, false, PAGE) {
            Ok(producer) => producer,
            Err(e) => {
                // SAFETY: just mapped, and not used yet.
                unsafe { libc::munmap(consumer.as_ptr().cast(), PAGE) };
                return Err(e);
            }
        };
        Ok(Ring {
            consumer,
            producer,
            size,
        })
    }

    fn position(&self, page: NonNull<u8>) -> &AtomicU64 {
        // SAFETY: the first word of a mapped page; atomics allow sharing.
        unsafe { &*page.as_ptr().cast::<AtomicU64>() }
    }

    /// Forget everything that was written so far.
    pub fn discard(&self) {
        let produced = self.position(self.producer).load(Ordering::Acquire);
        self.position(self.consumer)
            .store(produced, Ordering::Release);
    }

    /// Hand every finished record to `work`, at most `limit` of them; `false` from it stops after
    /// that record. Returns how many there were.
    pub fn consume(&mut self, limit: usize, mut work: impl FnMut(&[u8]) -> bool) -> usize {
        let mut at = self.position(self.consumer).load(Ordering::Relaxed);
        let mut count = 0;
        while count < limit && at < self.position(self.producer).load(Ordering::Acquire) {
            let place = PAGE + (at as usize & (self.size - 1));
            // SAFETY: within the mapped data, which is twice `size` behind one page; records start
            // at multiples of 8.
            let header = unsafe { &*self.producer.as_ptr().add(place).cast::<AtomicU32>() };
            let word = header.load(Ordering::Acquire);
            if word & BUSY != 0 {
                break;
            }
            let length = (word & !(BUSY | DISCARDED)) as usize;
            let mut go_on = true;
            if word & DISCARDED == 0 && length <= self.size {
                // SAFETY: the record is within the mapped data (length checked against it), and
                // the writer leaves it alone until our position has passed it.
                let record = unsafe {
                    std::slice::from_raw_parts(
                        self.producer.as_ptr().add(place + HEADER as usize),
                        length,
                    )
                };
                go_on = work(record);
                count += 1;
            }
            at += (length as u64 + HEADER).next_multiple_of(8);
            self.position(self.consumer).store(at, Ordering::Release);
            if !go_on {
                break;
            }
        }
        count
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: these mappings were made by `new`, and nobody holds references into them.
        unsafe {
            libc::munmap(self.consumer.as_ptr().cast(), PAGE);
            libc::munmap(self.producer.as_ptr().cast(), PAGE + 2 * self.size);
        }
    }
}

//! Shared memory of BPF array maps, mapped into this process.
//!
//! Packets and other processes read and write the same bytes at the same time, so there are no
//! references into it: only copies, and atomic loads and stores of aligned words.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A mapped array map.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is shared with the kernel anyway; every access is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map `length` bytes of a map made with `BPF_F_MMAPABLE`.
    pub fn new(map: BorrowedFd<'_>, length: usize) -> io::Result<Mapping> {
        let page = 4096;
        let length = length.next_multiple_of(page);
        // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { address, length })
    }

    /// Mapped bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(8) && offset + count * 8 <= self.length);
        // SAFETY: in bounds and aligned (the mapping starts at a page); atomics allow sharing.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr().add(offset).cast(), count) }
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(offset < self.length);
        // SAFETY: in bounds; atomics allow sharing.
        unsafe { &*self.address.as_ptr().add(offset).cast::<AtomicU8>() }
    }

    /// Copy bytes in, by whole words where they are aligned.
    ///
    /// # Panics
    /// When the range is out of bounds, like indexing.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let head = (offset.wrapping_neg() % 8).min(bytes.len());
        for (i, b) in bytes[..head].iter().enumerate() {
            self.byte(offset + i).store(*b, Ordering::Relaxed);
        }
        let (body, start) = (&bytes[head..], offset + head);
        if body.is_empty() {
            return;
        }
        let chunks = body.chunks_exact(8);
        let (tail, tail_start) = (chunks.remainder(), start + body.len() / 8 * 8);
        for (word, chunk) in self.words(start, body.len() / 8).iter().zip(chunks) {
            let value = u64::from_ne_bytes(chunk.try_into().expect("chunks of 8"));
            word.store(value, Ordering::Relaxed);
        }
        for (i, b) in tail.iter().enumerate() {
            self.byte(tail_start + i).store(*b, Ordering::Relaxed);
        }
    }

    /// Set words to zero; both numbers are multiples of 8. Words that are zero already are not
    /// touched, so that pages never used stay unused.
    ///
    /// # Panics
    /// When the range is out of bounds or not aligned.
    pub fn zero(&self, offset: usize, length: usize) {
        assert!(length.is_multiple_of(8));
        for word in self.words(offset, length / 8) {
            if word.load(Ordering::Relaxed) != 0 {
                word.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Copy bytes out.
    ///
    /// # Panics
    /// When the range is out of bounds.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        if offset.is_multiple_of(8) {
            let words = self.words(offset, out.len() / 8);
            let whole = words.len() * 8;
            for (word, chunk) in words.iter().zip(out.chunks_exact_mut(8)) {
                chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
            }
            for (i, b) in out[whole..].iter_mut().enumerate() {
                *b = self.byte(offset + whole + i).load(Ordering::Relaxed);
            }
        } else {
            for (i, b) in out.iter_mut().enumerate() {
                *b = self.byte(offset + i).load(Ordering::Relaxed);
            }
        }
    }

    /// One 64-bit word.
    ///
    /// # Panics
    /// When the offset is out of bounds or not aligned.
    pub fn load64(&self, offset: usize) -> u64 {
        self.words(offset, 1)[0].load(Ordering::Acquire)
    }

    /// Store one 64-bit word; everything written before is seen by who sees it.
    ///
    /// # Panics
    /// When the offset is out of bounds or not aligned.
    pub fn store64(&self, offset: usize, value: u64) {
        self.words(offset, 1)[0].store(value, Ordering::Release);
    }

    /// Add to one 64-bit word.
    ///
    /// # Panics
    /// When the offset is out of bounds or not aligned.
    pub fn add64(&self, offset: usize, more: u64) {
        self.words(offset, 1)[0].fetch_add(more, Ordering::Relaxed);
    }

    fn half(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.length);
        // SAFETY: in bounds and aligned; atomics allow sharing.
        unsafe { &*self.address.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    /// One 32-bit word.
    ///
    /// # Panics
    /// When the offset is out of bounds or not aligned.
    pub fn load32(&self, offset: usize) -> u32 {
        self.half(offset).load(Ordering::Acquire)
    }

    /// Add to one 32-bit word.
    ///
    /// # Panics
    /// When the offset is out of bounds or not aligned.
    pub fn add32(&self, offset: usize, more: u32) {
        self.half(offset).fetch_add(more, Ordering::SeqCst);
    }

    /// Store one 32-bit word; everything written before is seen by who sees it.
    ///
    /// # Panics
    /// When the offset is out of bounds or not aligned.
    pub fn store32(&self, offset: usize, value: u32) {
        self.half(offset).store(value, Ordering::SeqCst);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `new` and nobody holds references into it.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

/// Wait until every program that runs now on any CPU has ended: afterwards nobody reads what
/// was unlinked before. The kernel runs `synchronize_rcu` for a global membarrier.
pub fn grace_period() -> io::Result<()> {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
    // SAFETY: no pointers.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    super::check(result as i32).map(drop)
}

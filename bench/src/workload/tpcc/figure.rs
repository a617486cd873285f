//! What transactions add to: figures of a district, and of a warehouse.

use super::DISTRICTS;

#[derive(Clone, Copy)]
pub enum Figure {
    // Of a district.
    Orders,
    Lines,
    Pieces,
    Payments,
    Paid,
    /// By those who live there, wherever they paid.
    PaymentsByCustomers,
    PaidByCustomers,
    // Of a warehouse, and under its first district.
    /// Lines and pieces that were taken from its stock.
    SoldLines,
    SoldPieces,
    /// Of all districts at once.
    Deliveries,
}

const FIGURES: u32 = 10;

impl Figure {
    /// The figures of so many warehouses.
    pub fn count(warehouses: u32) -> usize {
        (warehouses * DISTRICTS * FIGURES) as usize
    }

    /// That of a district.
    pub fn at(self, warehouse: u32, district: u32) -> u32 {
        ((warehouse - 1) * DISTRICTS + district - 1) * FIGURES + self as u32
    }

    /// That of a warehouse.
    pub fn of(self, warehouse: u32) -> u32 {
        self.at(warehouse, 1)
    }
}
